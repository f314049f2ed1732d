#include <ripieno/accounting/cli/program.hpp>
#include <ripieno/framework/comm/launcher.hpp>
#include <ripieno/framework/training/train_main.hpp>
#include <ripieno/framework/training/train_options.hpp>

namespace ripieno {

int train_main(int argc, char** argv, const ModelFactory& make_model) {
  return cli::run_program("ripieno-train", [&] {
    TrainConfig config;
    try {
      if (!parse_train_options(cli::arguments(argc, argv), config)) return 0;
    } catch (const UsageError& e) {
      // MPI is not up yet, and every rank reads the same command line: one of them tells what is wrong with it.
      const auto task = launcher_tasks();
      if (task && task->rank.value_or(0) > 0) return static_cast<int>(e.code());
      throw;
    }
    const Runtime runtime(argc, argv, {.allow_singleton = config.allow_singleton});
    return runtime.run([&] { return static_cast<int>(train(runtime, config, make_model)); });
  });
}

}  // namespace ripieno
