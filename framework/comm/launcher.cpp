#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/launcher.hpp>

namespace ripieno {
namespace {

struct Variables {
  const char* count;
  const char* rank;
};

/// In order of trust. Under mpirun in a batch job the SLURM_ ones describe the daemons that mpirun started.
constexpr std::array k_launchers = {
    Variables{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    Variables{"PMI_SIZE", "PMI_RANK"},
    Variables{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
    Variables{"SLURM_NTASKS", "SLURM_PROCID"},
};

std::optional<int> parse_count(const char* text) {
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stopped != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<LauncherTasks> launcher_tasks(const EnvironmentLookup& environment) {
  for (const auto& [count_name, rank_name] : k_launchers) {
    if (const auto count = parse_count(environment(count_name)); count && *count > 0) {
      return LauncherTasks{*count, parse_count(environment(rank_name)),
                           std::string(count_name) + "=" + std::to_string(*count)};
    }
  }
  // PMIx tells the rank but not the number of tasks: a rank above 0 is never alone.
  if (const auto rank = parse_count(environment("PMIX_RANK"))) {
    return LauncherTasks{*rank + 1, rank, "PMIX_RANK=" + std::to_string(*rank)};
  }
  return std::nullopt;
}

std::optional<LauncherTasks> launcher_tasks() {
  return launcher_tasks([](const char* name) -> const char* { return std::getenv(name); });
}

bool launched_without_pmi(const EnvironmentLookup& environment) {
  for (const char* channel : {"OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", "PMI_RANK", "PMI_FD"}) {
    if (environment(channel) != nullptr) return false;
  }
  return parse_count(environment("SLURM_STEP_NUM_TASKS")).value_or(1) > 1;
}

void refuse_singletons(const std::optional<LauncherTasks>& tasks) {
  if (!tasks || tasks->count <= 1) return;
  throw CommError("MPI sees one process but the launcher started several",
                  tasks->source + " in the environment; each process would train alone as rank 0 of 1",
                  "start with `srun --mpi=pmix` or with mpirun of the MPI this program is linked to, or give "
                  "--allow-singleton to run one process on purpose");
}

}  // namespace ripieno
