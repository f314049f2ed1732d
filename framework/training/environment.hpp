#pragma once

#include <string>
#include <vector>

namespace ripieno {

/// "NAME=VALUE" of the environment variables that steer threads, MPI, its transports, NCCL and the batch job, sorted:
/// what a user who looks for the reason of a slow or failing run wants to see.
[[nodiscard]] std::vector<std::string> environment_in_force();

}  // namespace ripieno
