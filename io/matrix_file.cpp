#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/hdf5_handle_internal.hpp>
#include <ripieno/io/matrix_file.hpp>

namespace ripieno::io {

Matrix read_matrix(const std::filesystem::path& path, const std::string& dataset) {
  constexpr hsize_t k_largest_side = 1024;
  const hdf5::Session session;
  const hdf5::Properties access = hdf5::file_access();
  const hdf5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file) throw DataError("cannot read " + path.string(), hdf5::last_error(), "give an HDF5 file");
  const hdf5::Dataset data(H5Dopen2(file.get(), dataset.c_str(), H5P_DEFAULT));
  if (!data) throw DataError(path.string() + " has no dataset '" + dataset + "'", hdf5::last_error());
  const hdf5::Space space(H5Dget_space(data.get()));
  const hdf5::Type type(H5Dget_type(data.get()));
  std::array<hsize_t, 2> sides{};
  const bool is_matrix = H5Sget_simple_extent_ndims(space.get()) == 2 &&
                         H5Sget_simple_extent_dims(space.get(), sides.data(), nullptr) == 2 &&
                         H5Tget_class(type.get()) == H5T_FLOAT && sides[0] <= k_largest_side &&
                         sides[1] <= k_largest_side;
  if (!is_matrix) {
    throw DataError("dataset '" + dataset + "' of " + path.string() + " is no matrix of real numbers",
                    "two dimensions of at most " + std::to_string(k_largest_side) + " are expected");
  }
  Matrix matrix{.rows = static_cast<std::int64_t>(sides[0]),
                .columns = static_cast<std::int64_t>(sides[1]),
                .values = std::vector<double>(sides[0] * sides[1])};
  if (H5Dread(data.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, matrix.values.data()) < 0) {
    throw DataError("cannot read dataset '" + dataset + "' of " + path.string(), hdf5::last_error());
  }
  return matrix;
}

}  // namespace ripieno::io
