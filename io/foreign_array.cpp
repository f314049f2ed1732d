#include <algorithm>
#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/child_process.hpp>
#include <ripieno/io/foreign_array.hpp>
#include <ripieno/io/hdf5_handle_internal.hpp>
#include <ripieno/io/shard_info.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;
using Kind = ForeignType::Kind;

constexpr std::size_t k_max_cache_bytes = std::size_t{256} << 20;

herr_t collect_dataset(hid_t, const char* name, const H5O_info_t* info, void* names) {
  auto& list = *static_cast<std::vector<std::string>*>(names);
  if (info->type == H5O_TYPE_DATASET) list.emplace_back(name);
  return list.size() < 20 ? 0 : 1;
}

std::string dataset_names(hid_t file) {
  std::vector<std::string> names;
  H5Ovisit(file, H5_INDEX_NAME, H5_ITER_INC, collect_dataset, &names);
  return names.empty() ? "the file holds none" : "datasets there: " + join(names);
}

}  // namespace

struct ForeignArray::State {
  fs::path path;
  std::string name;
  OpenFile opened;
  hdf5::File file;
  hdf5::Dataset dataset;
  ForeignType type;
  std::vector<std::int64_t> shape;
  std::int64_t row_elements = 1;
  std::string storage = "contiguous";

  [[noreturn]] void fail(const std::string& what, const std::string& why, const std::string& advice = {}) const {
    throw DataError(path.string() + ": dataset '" + name + "' " + what, why, advice);
  }

  void open() {
    const std::string held = "/proc/self/fd/" + std::to_string(opened.fd.get());
    const hdf5::Properties access = hdf5::file_access();
    // A row of contiguous storage would fill a sieve buffer of 64 KB.
    H5Pset_sieve_buf_size(access.get(), 0);
    file = hdf5::File(H5Fopen(held.c_str(), H5F_ACC_RDONLY, access.get()));
    if (!file) throw DataError(path.string() + ": cannot open as HDF5", hdf5::last_error(), "copy the file again");
    if (H5Lexists(file.get(), name.c_str(), H5P_DEFAULT) <= 0) fail("is not there", dataset_names(file.get()));
    dataset = hdf5::Dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
    if (!dataset) fail("cannot be opened", hdf5::last_error());
    check_own();
    check_storage();
    read_type();
    read_shape();
    enlarge_cache();
  }

  // A link may lead into another file, whose examples may be listed twice.
  void check_own() const {
    H5O_info_t root{};
    H5O_info_t own{};
    if (H5Oget_info(file.get(), &root) < 0 || H5Oget_info(dataset.get(), &own) < 0 || root.fileno != own.fileno) {
      fail("lies in another file", "an external link leads there", "name that file");
    }
  }

  void check_storage() {
    const hdf5::Properties creation(H5Dget_create_plist(dataset.get()));
    const H5D_layout_t layout = creation ? H5Pget_layout(creation.get()) : H5D_LAYOUT_ERROR;
    if (layout == H5D_LAYOUT_ERROR) fail("is corrupt", hdf5::last_error());
    if (layout == H5D_VIRTUAL)
      fail("is virtual", "HDF5 reads zeros where a source file is missing", "name the sources");
    if (H5Pget_external_count(creation.get()) > 0)
      fail("keeps its data in an external file", "that file may hold anything");
    if (H5Dget_storage_size(dataset.get()) == 0) fail("was never written", "it would read as zeros");
    if (layout == H5D_COMPACT) storage = "compact";
    if (layout == H5D_CHUNKED) check_chunks(creation.get());
  }

  void check_chunks(hid_t creation) {
    std::array<hsize_t, H5S_MAX_RANK> chunk{};
    std::array<hsize_t, H5S_MAX_RANK> dims{};
    const int rank = H5Pget_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
    const hdf5::Space space(H5Dget_space(dataset.get()));
    H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
    hsize_t expected = 1;
    storage = "chunked ";
    for (int i = 0; i < rank; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (chunk[at] == 0) fail("is corrupt", "chunks of no size");
      expected *= (dims[at] + chunk[at] - 1) / chunk[at];
      storage.append(i > 0 ? "x" : "").append(std::to_string(chunk[at]));
    }
    hsize_t there = 0;
    if (H5Dget_num_chunks(dataset.get(), space.get(), &there) < 0 || there != expected) {
      fail("has holes", std::to_string(there) + " of its " + std::to_string(expected) +
                            " chunks were written; the others would read as zeros");
    }
    for (int i = 0; i < H5Pget_nfilters(creation); ++i) {
      unsigned flags = 0, config = 0;
      std::size_t values = 0;
      std::array<char, 64> filter_name{};
      const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr,
                                                 filter_name.size(), filter_name.data(), &config);
      if (filter >= 0 && H5Zfilter_avail(filter) <= 0) {
        fail("needs filter " + std::to_string(filter), "it is not available here");
      }
      storage.append(", ").append(filter_name.data());
    }
  }

  void read_type() {
    const hdf5::Type stored(H5Dget_type(dataset.get()));
    const H5T_class_t kind = stored ? H5Tget_class(stored.get()) : H5T_NO_CLASS;
    const std::size_t bytes = stored ? H5Tget_size(stored.get()) : 0;
    type.bytes = bytes;
    type.big_endian = H5Tget_order(stored.get()) == H5T_ORDER_BE;
    const bool power = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    if (kind == H5T_INTEGER && power) {
      type.kind = H5Tget_sign(stored.get()) == H5T_SGN_NONE ? Kind::unsigned_integer : Kind::signed_integer;
    } else if (kind == H5T_ENUM && bytes == 1) {
      type.kind = Kind::boolean;
    } else if (kind == H5T_FLOAT && power && bytes > 1) {
      type.kind = Kind::floating;
    } else {
      fail("does not hold numbers", "integers, bool and float16 to float64 are read");
    }
  }

  void read_shape() {
    const hdf5::Space space(H5Dget_space(dataset.get()));
    const int rank = space ? H5Sget_simple_extent_ndims(space.get()) : -1;
    if (rank < 1 || rank > 16) fail("has " + std::to_string(rank) + " dimensions", "the first one counts the examples");
    std::array<hsize_t, H5S_MAX_RANK> dims{};
    H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
    for (int i = 0; i < rank; ++i) {
      const hsize_t dim = dims[static_cast<std::size_t>(i)];
      shape.push_back(std::in_range<std::int64_t>(dim) ? static_cast<std::int64_t>(dim) : -1);
    }
    const auto elements = count_elements(shape);
    if (!elements || *elements < 1 || *elements > INT64_MAX / 8) {
      fail("has an unusable shape", format_shape(shape));
    }
    row_elements = *elements / shape.front();
  }

  // A chunk that does not fit the cache is unpacked again for each of its rows.
  void enlarge_cache() {
    const hdf5::Properties creation(H5Dget_create_plist(dataset.get()));
    if (H5Pget_layout(creation.get()) != H5D_CHUNKED) return;
    std::array<hsize_t, H5S_MAX_RANK> chunk{};
    const int rank = H5Pget_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data());
    std::size_t bytes = type.bytes;
    std::size_t across = 1;  // chunks that one row touches
    for (int i = 0; i < rank; ++i) {
      const auto at = static_cast<std::size_t>(i);
      bytes *= static_cast<std::size_t>(chunk[at]);
      if (i > 0) across *= (static_cast<std::size_t>(shape[at]) + chunk[at] - 1) / chunk[at];
    }
    const hdf5::Properties access(H5Pcreate(H5P_DATASET_ACCESS));
    H5Pset_chunk_cache(access.get(), 12421, std::clamp(2 * bytes * across, std::size_t{1} << 20, k_max_cache_bytes),
                       1.0);
    hdf5::Dataset again(H5Dopen2(file.get(), name.c_str(), access.get()));
    if (again) dataset = std::move(again);
  }

  void read_rows(std::int64_t first, std::int64_t count, DType to, std::span<std::byte> out) const {
    const hdf5::Session session;
    std::vector<hsize_t> start(shape.size(), 0);
    std::vector<hsize_t> extent(shape.begin(), shape.end());
    start[0] = static_cast<hsize_t>(first);
    extent[0] = static_cast<hsize_t>(count);
    const hdf5::Space stored(H5Dget_space(dataset.get()));
    const hdf5::Space memory(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
    // A bool is an enumeration, which HDF5 does not convert: it is read as it lies there.
    const hdf5::Type wanted =
        type.kind == Kind::boolean ? hdf5::Type(H5Dget_type(dataset.get())) : hdf5::stored_type(to);
    std::vector<std::byte> raw(type.kind == Kind::boolean ? static_cast<std::size_t>(count * row_elements) : 0);
    void* const target = type.kind == Kind::boolean ? raw.data() : out.data();
    if (H5Sselect_hyperslab(stored.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr) < 0 ||
        H5Dread(dataset.get(), wanted.get(), memory.get(), stored.get(), H5P_DEFAULT, target) < 0) {
      fail("cannot be read", hdf5::last_error(), "copy the file again");
    }
    if (type.kind == Kind::boolean) convert_elements(type, raw, to, out, path.string());
  }
};

ForeignArray::ForeignArray(const fs::path& path, const std::string& name) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->name = name;
  state_->opened = open_regular_file(path);
  const hdf5::Session session;
  try {
    state_->open();
  } catch (...) {
    state_->dataset = {};
    state_->file = {};
    throw;
  }
}

ForeignArray::~ForeignArray() {
  if (!state_) return;
  const hdf5::Session session;
  state_->dataset = {};
  state_->file = {};
}

ForeignArray::ForeignArray(ForeignArray&&) noexcept = default;
ForeignArray& ForeignArray::operator=(ForeignArray&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

const fs::path& ForeignArray::path() const noexcept { return state_->path; }
const FileIdentity& ForeignArray::identity() const noexcept { return state_->opened.identity; }
const std::string& ForeignArray::name() const noexcept { return state_->name; }
const ForeignType& ForeignArray::type() const noexcept { return state_->type; }
const std::vector<std::int64_t>& ForeignArray::shape() const noexcept { return state_->shape; }
std::int64_t ForeignArray::row_elements() const noexcept { return state_->row_elements; }
std::string ForeignArray::storage() const { return state_->storage; }

void ForeignArray::read_rows(std::int64_t first, std::int64_t count, DType to, std::span<std::byte> out) const {
  state_->read_rows(first, count, to, out);
}

void try_foreign_arrays(const fs::path& path, std::span<const std::string> names) {
  const auto body = [&] {
    for (const std::string& name : names) {
      const ForeignArray array(path, name);
      const DType dtype = array.type().stored();
      std::vector<std::byte> row(static_cast<std::size_t>(std::min<std::int64_t>(array.row_elements(), 1 << 24)) *
                                 item_size(dtype));
      if (array.row_elements() <= 1 << 24) array.read_rows(0, 1, dtype, row);
    }
  };
  if (survives_in_child(body)) return;
  throw DataError(path.string() + ": corrupt metadata", "HDF5 crashes on it", "copy the file again");
}

}  // namespace ripieno::io
