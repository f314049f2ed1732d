#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/file.hpp>
#include <ripieno/io/hdf5_attributes_internal.hpp>
#include <ripieno/io/hdf5_handle_internal.hpp>
#include <ripieno/io/tensor_file.hpp>

namespace ripieno::io {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are written as they lie in memory");

void write_tensor(hid_t file, const NamedTensor& tensor, const std::filesystem::path& path) {
  const auto numel = std::reduce(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
  if (numel != static_cast<std::int64_t>(tensor.values.size())) {
    throw UsageError("tensor " + tensor.name + " has " + std::to_string(tensor.values.size()) + " values",
                     "its shape holds " + std::to_string(numel));
  }
  const std::vector<hsize_t> dims(tensor.shape.begin(), tensor.shape.end());
  const hdf5::Space space(dims.empty() ? H5Screate(H5S_SCALAR)
                                       : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
  const hdf5::Properties creation(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_obj_track_times(creation.get(), false);
  const hdf5::Type type = hdf5::stored_type(DType::f32);
  const hdf5::Dataset dataset(
      H5Dcreate2(file, tensor.name.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT));
  if (!dataset || H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.values.data()) < 0) {
    throw DataError("cannot write " + path.string(), hdf5::last_error());
  }
}

StoredTensor read_tensor(hid_t file, const std::string& name, std::uintmax_t file_bytes, const std::string& where) {
  const hdf5::Dataset dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
  const hdf5::Type type(dataset ? H5Dget_type(dataset.get()) : H5I_INVALID_HID);
  if (!type || H5Tequal(type.get(), hdf5::stored_type(DType::f32).get()) <= 0) {
    throw DataError(where + ": /" + name + " is not a float32 dataset", hdf5::last_error());
  }
  const hdf5::Space space(H5Dget_space(dataset.get()));
  std::vector<hsize_t> dims(static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.get()))));
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  const hssize_t numel = H5Sget_simple_extent_npoints(space.get());
  // A claimed size is believed only as far as the file could hold it.
  if (numel < 0 || static_cast<std::uintmax_t>(numel) > file_bytes / sizeof(float)) {
    throw DataError(where + ": /" + name + " claims more values than the file holds");
  }
  StoredTensor tensor{.shape = {dims.begin(), dims.end()},
                      .values = std::vector<float>(static_cast<std::size_t>(numel))};
  if (H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.values.data()) < 0) {
    throw DataError(where + ": cannot read /" + name, hdf5::last_error());
  }
  return tensor;
}

}  // namespace

std::map<std::string, StoredTensor> read_tensor_file(const std::filesystem::path& path) {
  const OpenFile opened = open_regular_file(path);
  const hdf5::Session session;
  const hdf5::Properties access = hdf5::file_access();
  const hdf5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file) throw DataError("cannot read " + path.string(), hdf5::last_error());
  H5G_info_t root;
  if (H5Gget_info(file.get(), &root) < 0) throw DataError("cannot read " + path.string(), hdf5::last_error());
  std::map<std::string, StoredTensor> tensors;
  for (hsize_t i = 0; i < root.nlinks; ++i) {
    const auto link_name = [&](char* buffer, std::size_t size) {
      return H5Lget_name_by_idx(file.get(), ".", H5_INDEX_NAME, H5_ITER_INC, i, buffer, size, H5P_DEFAULT);
    };
    const ssize_t length = link_name(nullptr, 0);
    if (length < 0) throw DataError("cannot read " + path.string(), hdf5::last_error());
    std::string name(static_cast<std::size_t>(length), '\0');
    link_name(name.data(), name.size() + 1);
    tensors[name] = read_tensor(file.get(), name, static_cast<std::uintmax_t>(opened.identity.bytes), path.string());
  }
  return tensors;
}

void write_tensor_file(const std::filesystem::path& path,
                       std::span<const std::pair<std::string, std::string>> attributes,
                       std::span<const NamedTensor> tensors) {
  const std::filesystem::path temporary = path.string() + ".tmp";
  {
    const hdf5::Session session;
    const hdf5::Properties access = hdf5::file_access();
    const hdf5::Properties creation(H5Pcreate(H5P_FILE_CREATE));
    H5Pset_obj_track_times(creation.get(), false);
    hdf5::File file(H5Fcreate(temporary.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
    if (!file) throw DataError("cannot write " + temporary.string(), hdf5::last_error());
    for (const auto& [name, value] : attributes) hdf5::write_attribute(file.get(), name.c_str(), value);
    for (const NamedTensor& tensor : tensors) write_tensor(file.get(), tensor, temporary);
    if (!file.reset()) throw DataError("cannot write " + temporary.string(), hdf5::last_error());
  }
  sync_to_disk(temporary);
  publish(temporary, path);
}

}  // namespace ripieno::io
