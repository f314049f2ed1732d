#pragma once

#include <functional>
#include <optional>
#include <string>

namespace ripieno {

/// What the program that started this process says about the job, from its environment variables.
struct LauncherTasks {
  int count;                ///< tasks of the job step
  std::optional<int> rank;  ///< this task's number, where known
  std::string source;       ///< the variable, as "SLURM_NTASKS=4"
};

/// Looks up an environment variable; null when it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// Nullopt when no launcher is recognised. Understands mpirun of Open MPI, PMI (MPICH, Intel MPI, Cray), PMIx and srun;
/// a variable of the MPI launcher wins over those of the batch job around it, so that `mpirun -n 1` inside a job of
/// four tasks counts as one.
[[nodiscard]] std::optional<LauncherTasks> launcher_tasks(const EnvironmentLookup& environment);
[[nodiscard]] std::optional<LauncherTasks> launcher_tasks();

/// True when srun has started several tasks without any of the channels by which Open MPI finds its peers. Its MPI_Init
/// would end the process with its own text and code.
[[nodiscard]] bool launched_without_pmi(const EnvironmentLookup& environment);

/// Throws CommError when the launcher started several tasks but MPI sees one: each would train alone as rank 0 of 1 and
/// overwrite the files of the others (open-mpi/ompi#13523, #10286).
void refuse_singletons(const std::optional<LauncherTasks>& tasks);

}  // namespace ripieno
