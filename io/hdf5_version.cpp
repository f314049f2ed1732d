#include <ripieno/io/hdf5_handle_internal.hpp>
#include <ripieno/io/hdf5_version.hpp>

namespace ripieno::io {

std::string hdf5_version() {
  const hdf5::Session session;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

}  // namespace ripieno::io
