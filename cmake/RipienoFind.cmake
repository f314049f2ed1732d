# The packages that io and framework link, for the build and for who uses an installed Ripieno. Everything is found, nothing
# is downloaded.

set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI REQUIRED COMPONENTS C)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(TURBOJPEG REQUIRED IMPORTED_TARGET libturbojpeg)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
find_package(TorchWheel REQUIRED)
