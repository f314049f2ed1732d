#pragma once

#include <string>

namespace ripieno {

/// Name and version of the MPI library, as it tells them. Needs no MPI_Init.
[[nodiscard]] std::string mpi_version();

}  // namespace ripieno
