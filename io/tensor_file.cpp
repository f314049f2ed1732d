#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/child_process.hpp>
#include <ripieno/io/file.hpp>
#include <ripieno/io/hdf5_attributes_internal.hpp>
#include <ripieno/io/hdf5_handle_internal.hpp>
#include <ripieno/io/tensor_file.hpp>
#include <ripieno/io/uncached_writer.hpp>

namespace ripieno::io {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are written as they lie in memory");

constexpr const char* k_checksum = "sha256";
constexpr hsize_t k_aligned_bytes = 64 << 10;  // arrays from this size on begin where they are written fastest

/// Over everything in the file, in the order of names, with lengths, so that no two contents feed the same bytes.
class Checksum {
 public:
  void add(const TextAttributes& attributes) {
    for (const auto& [name, value] : attributes) add_text(name), add_text(value);
  }
  void add(const std::string& name, std::span<const std::int64_t> shape, DType dtype,
           std::span<const std::byte> bytes) {
    add_text(name);
    add_bytes(std::as_bytes(shape));
    add_text(dtype_name(dtype));
    add_bytes(bytes);
  }
  [[nodiscard]] std::string finish() { return to_hex(hash_.finish()); }

 private:
  void add_text(std::string_view text) { add_bytes(std::as_bytes(std::span(text))); }
  void add_bytes(std::span<const std::byte> bytes) {
    const std::uint64_t size = bytes.size();
    hash_.update({reinterpret_cast<const std::uint8_t*>(&size), sizeof size});
    hash_.update({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  }

  Sha256 hash_;
};

[[noreturn]] void fail(const std::string& what) {
  throw DataError(what, hdf5::last_error(), "copy the file again, or use an older one");
}

/// Where the elements of a dataset lie in the file.
struct Extent {
  haddr_t offset;
  std::span<const std::byte> bytes;
};

/// Makes the dataset, contiguous and without its elements.
Extent place_tensor(hid_t file, const NamedTensor& tensor, const std::filesystem::path& path) {
  const auto numel = std::reduce(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
  const std::size_t item_bytes = item_size(tensor.dtype);
  if (static_cast<std::size_t>(numel) * item_bytes != tensor.bytes.size()) {
    throw UsageError("tensor " + tensor.name + " has " + std::to_string(tensor.bytes.size()) + " bytes",
                     "its shape holds " + std::to_string(numel) + " elements of " + std::to_string(item_bytes));
  }
  const std::vector<hsize_t> dims(tensor.shape.begin(), tensor.shape.end());
  const hdf5::Space space(dims.empty() ? H5Screate(H5S_SCALAR)
                                       : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
  const hdf5::Properties creation(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_obj_track_times(creation.get(), false);
  H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER);
  const hdf5::Type type = hdf5::stored_type(tensor.dtype);
  const hdf5::Dataset dataset(
      H5Dcreate2(file, tensor.name.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT));
  if (!dataset) throw DataError("cannot write " + path.string(), hdf5::last_error(), "free disk space");
  return {numel == 0 ? 0 : H5Dget_offset(dataset.get()), tensor.bytes};
}

/// HDF5 would create the file for everyone; it keeps the mode of one that is there.
void create_empty(const std::filesystem::path& path, Readers readers) {
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, readers == Readers::everyone ? 0666 : 0600));
  if (fd.get() < 0) throw DataError("cannot write " + path.string(), std::strerror(errno));
}

std::uint64_t total_bytes(std::span<const NamedTensor> tensors) {
  std::uint64_t total = 0;
  for (const NamedTensor& tensor : tensors) total += tensor.bytes.size();
  return total;
}

void write_contents(const std::filesystem::path& path, const TextAttributes& attributes,
                    std::span<const NamedTensor> tensors, const std::string& checksum, WritePace* pace) {
  const hdf5::Session session;
  const hdf5::Properties access = hdf5::file_access();
  H5Pset_alignment(access.get(), k_aligned_bytes, UncachedWriter::k_alignment);
  const hdf5::Properties creation(H5Pcreate(H5P_FILE_CREATE));
  H5Pset_obj_track_times(creation.get(), false);
  hdf5::File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
  if (!file) throw DataError("cannot write " + path.string(), hdf5::last_error());
  for (const auto& [name, value] : attributes) hdf5::write_attribute(file.get(), name.c_str(), value);
  hdf5::write_attribute(file.get(), k_checksum, checksum);
  std::vector<Extent> extents;
  for (const NamedTensor& tensor : tensors) extents.push_back(place_tensor(file.get(), tensor, path));
  if (!file.reset()) throw DataError("cannot write " + path.string(), hdf5::last_error());
  if (pace != nullptr) pace->begin(total_bytes(tensors));
  UncachedWriter writer(path, pace);
  for (const auto& [offset, bytes] : extents) writer.write(offset, bytes);
}

enum class Contents { structure, values };

std::optional<DType> dtype_of(hid_t type) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8,
                            DType::i8, DType::u32, DType::u64}) {
    if (H5Tequal(type, hdf5::stored_type(dtype).get()) > 0) return dtype;
  }
  return {};
}

StoredTensor read_tensor(hid_t file, const std::string& name, std::int64_t file_bytes, const std::string& where,
                         Contents contents) {
  const hdf5::Dataset dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
  const hdf5::Type type(dataset ? H5Dget_type(dataset.get()) : H5I_INVALID_HID);
  const std::optional<DType> dtype = type ? dtype_of(type.get()) : std::nullopt;
  if (!dtype) fail(where + ": /" + name + " is not a dataset of numbers that tensor files hold");
  const hdf5::Space space(H5Dget_space(dataset.get()));
  std::vector<hsize_t> dims(static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.get()))));
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  const hssize_t numel = H5Sget_simple_extent_npoints(space.get());
  // A claimed size is believed only as far as the file could hold it.
  if (numel < 0 || numel > file_bytes / static_cast<std::int64_t>(item_size(*dtype))) {
    throw DataError(where + ": /" + name + " claims more values than the file holds");
  }
  if (contents == Contents::structure) return {};
  StoredTensor tensor{.shape = {dims.begin(), dims.end()},
                      .dtype = *dtype,
                      .bytes = std::vector<std::byte>(static_cast<std::size_t>(numel) * item_size(*dtype))};
  if (H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes.data()) < 0) {
    fail(where + ": cannot read /" + name);
  }
  return tensor;
}

/// `get(buffer, size)` as HDF5's functions that return names: their length, and the text when there is room.
template <class Get>
std::string name_from(Get get, const std::string& where) {
  const ssize_t length = get(nullptr, std::size_t{0});
  if (length < 0) fail("cannot read " + where);
  std::string name(static_cast<std::size_t>(length), '\0');
  get(name.data(), name.size() + 1);
  return name;
}

TextAttributes read_attributes(hid_t file, const std::string& where) {
  H5O_info_t info;
  if (H5Oget_info(file, &info) < 0) fail("cannot read " + where);
  const hdf5::AttributeReader reader(file, where);
  TextAttributes attributes;
  for (hsize_t i = 0; i < info.num_attrs; ++i) {
    const std::string name = name_from(
        [&](char* buffer, std::size_t size) {
          return H5Aget_name_by_idx(file, ".", H5_INDEX_NAME, H5_ITER_INC, i, buffer, size, H5P_DEFAULT);
        },
        where);
    attributes[name] = reader.required_text(name.c_str());
  }
  return attributes;
}

std::map<std::string, StoredTensor> read_tensors(hid_t file, std::int64_t file_bytes, const std::string& where,
                                                 Contents contents = Contents::values) {
  H5G_info_t root;
  if (H5Gget_info(file, &root) < 0) fail("cannot read " + where);
  std::map<std::string, StoredTensor> tensors;
  for (hsize_t i = 0; i < root.nlinks; ++i) {
    const std::string name = name_from(
        [&](char* buffer, std::size_t size) {
          return H5Lget_name_by_idx(file, ".", H5_INDEX_NAME, H5_ITER_INC, i, buffer, size, H5P_DEFAULT);
        },
        where);
    tensors[name] = read_tensor(file, name, file_bytes, where, contents);
  }
  return tensors;
}

/// In a child process, because HDF5 crashes on some damaged files: attributes, names and shapes.
void check_structure(const std::filesystem::path& path) {
  const OpenFile opened = open_regular_file(path);
  const auto look = [&] {
    const hdf5::Session session;
    const hdf5::Properties access = hdf5::file_access();
    const hdf5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
    if (!file) return;
    static_cast<void>(read_attributes(file.get(), path.string()));
    static_cast<void>(read_tensors(file.get(), opened.identity.bytes, path.string(), Contents::structure));
  };
  if (survives_in_child(look)) return;
  throw DataError(path.string() + " is damaged", "HDF5 crashes on it", "use an older file");
}

}  // namespace

void write_tensor_file(const std::filesystem::path& path, const TextAttributes& attributes,
                       std::span<const NamedTensor> tensors, Readers readers, Overwrite overwrite, WritePace* pace) {
  if (attributes.contains(k_checksum)) throw UsageError("an attribute is called sha256", "that is the checksum's name");
  std::map<std::string, const NamedTensor*> sorted;
  for (const NamedTensor& tensor : tensors) sorted[tensor.name] = &tensor;
  Checksum checksum;
  checksum.add(attributes);
  for (const auto& [name, tensor] : sorted) checksum.add(name, tensor->shape, tensor->dtype, tensor->bytes);

  const std::filesystem::path temporary = path.string() + ".tmp";
  ::unlink(temporary.c_str());  // of a writer that was killed
  create_empty(temporary, readers);
  try {
    write_contents(temporary, attributes, tensors, checksum.finish(), pace);
    sync_to_disk(temporary);
    give_name(temporary, path, overwrite);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_to_disk(path.has_parent_path() ? path.parent_path() : ".");
}

TensorFile read_tensor_file(const std::filesystem::path& path) {
  check_structure(path);
  const OpenFile opened = open_regular_file(path);
  const hdf5::Session session;
  const hdf5::Properties access = hdf5::file_access();
  const hdf5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file) fail("cannot read " + path.string());
  TensorFile contents{.attributes = read_attributes(file.get(), path.string()),
                      .tensors = read_tensors(file.get(), opened.identity.bytes, path.string())};
  const auto stated = contents.attributes.extract(k_checksum);
  Checksum checksum;
  checksum.add(contents.attributes);
  for (const auto& [name, tensor] : contents.tensors) checksum.add(name, tensor.shape, tensor.dtype, tensor.bytes);
  if (stated.empty() || stated.mapped() != checksum.finish()) {
    throw DataError(path.string() + " is damaged", "its contents do not fit its checksum", "use an older file");
  }
  return contents;
}

}  // namespace ripieno::io
