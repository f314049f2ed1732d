#include <ripieno/accounting/cli/program.hpp>
#include <ripieno/framework/training/train_main.hpp>
#include <ripieno/framework/training/train_options.hpp>

namespace ripieno {

int train_main(int argc, char** argv, const ModelFactory& make_model) {
  return cli::run_program("ripieno-train", [&] {
    TrainConfig config;
    if (!parse_train_options(cli::arguments(argc, argv), config)) return 0;
    const Runtime runtime(argc, argv, {.allow_singleton = config.allow_singleton});
    return runtime.run([&] {
      train(runtime, config, make_model);
      return 0;
    });
  });
}

}  // namespace ripieno
