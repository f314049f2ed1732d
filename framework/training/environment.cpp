#include <unistd.h>

#include <algorithm>
#include <array>
#include <ripieno/framework/training/environment.hpp>
#include <string_view>

namespace ripieno {
namespace {

constexpr std::array<std::string_view, 11> k_names{
    "CUDA_VISIBLE_DEVICES=", "GLOO_", "NCCL_",         "OMPI_MCA_",           "OMP_",           "MALLOC_",
    "SLURM_JOB_ID=",         "UCX_",  "SLURM_NNODES=", "SLURM_RESTART_COUNT", "SLURM_JOB_END_",
};
/// Set by mpirun for each process; nobody chose them.
constexpr std::array<std::string_view, 8> k_noise{
    "OMPI_MCA_ess",   "OMPI_MCA_orte", "OMPI_MCA_pmix",   "OMPI_MCA_initial_wdir",
    "OMPI_MCA_shmem", "OMPI_MCA_plm=", "OMPI_MCA_routed", "OMPI_MCA_mpi_oversubscribe",
};

}  // namespace

std::vector<std::string> environment_in_force() {
  std::vector<std::string> found;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const auto begins = [&](std::string_view name) { return variable.starts_with(name); };
    if (std::ranges::any_of(k_names, begins) && std::ranges::none_of(k_noise, begins)) found.emplace_back(variable);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace ripieno
