#include <chrono>
#include <optional>
#include <ripieno/accounting/cli/program.hpp>
#include <ripieno/framework/comm/launcher.hpp>
#include <ripieno/framework/training/batch_job.hpp>
#include <ripieno/framework/training/train_main.hpp>
#include <ripieno/framework/training/train_options.hpp>
#include <thread>

namespace ripieno {
namespace {

Backend backend_of(const std::string& name) {
  if (name == "nccl") return Backend::nccl;
  return name == "mpi" ? Backend::mpi : Backend::automatic;
}

/// The exit code of this rank after a clean stop, for which rank 0 speaks. mpirun and `srun --kill-on-bad-exit` end
/// whoever is left when the first rank exits with another code than 0, and take their time: so rank 0 leaves last.
int leave_checkpointed(int rank) {
  constexpr std::chrono::milliseconds k_others_leave{300};
  if (rank > 0) return static_cast<int>(ExitCode::ok);
  std::this_thread::sleep_for(k_others_leave);
  return static_cast<int>(ExitCode::checkpointed);
}

}  // namespace

int train_main(int argc, char** argv, const ModelFactory& make_model) {
  return cli::run_program("ripieno-train", [&] {
    TrainConfig config;
    try {
      if (!parse_train_options(cli::arguments(argc, argv), config)) return 0;
      refuse_endless_restarts(config.max_restarts);
    } catch (const Error& e) {
      // MPI is not up yet, and every rank reads the same command line: one of them tells what is wrong with it.
      const auto task = launcher_tasks();
      if (task && task->rank.value_or(0) > 0) return static_cast<int>(e.code());
      throw;
    }
    std::optional<Runtime> runtime;
    runtime.emplace(argc, argv,
                    RuntimeOptions{.allow_singleton = config.allow_singleton,
                                   .collective_timeout_s = config.collective_timeout_s,
                                   .check_collectives = config.check_collectives,
                                   .backend = backend_of(config.backend)});
    const int code = runtime->run([&] { return static_cast<int>(train(*runtime, config, make_model)); });
    const int rank = runtime->world_size() > 1 ? runtime->rank() : -1;
    runtime.reset();  // every rank is through with MPI
    return code == static_cast<int>(ExitCode::checkpointed) && rank >= 0 ? leave_checkpointed(rank) : code;
  });
}

}  // namespace ripieno
