#pragma once

#include <string>

namespace ripieno::io {

/// Version of the HDF5 library in use, "1.10.8".
[[nodiscard]] std::string hdf5_version();

}  // namespace ripieno::io
