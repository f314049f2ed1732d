#include <ATen/Version.h>
#include <torch/version.h>

#include <ripieno/framework/comm/mpi_version.hpp>
#include <ripieno/framework/training/versions.hpp>
#include <ripieno/io/hdf5_version.hpp>
#include <ripieno/version.hpp>

namespace ripieno {

Json versions() {
  return {{"ripieno", k_version},   {"build", k_build_type}, {"compiler", k_compiler},
          {"torch", TORCH_VERSION}, {"mpi", mpi_version()},  {"hdf5", io::hdf5_version()}};
}

}  // namespace ripieno
