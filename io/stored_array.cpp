#include <array>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/stored_array_internal.hpp>
#include <utility>

namespace ripieno::io {
namespace {

constexpr int k_max_rank = 16;
const char* const k_convert = "write it again as docs/formats.md says";
const char* const k_copy_again = "copy or import the file again";

class ArrayInspector {
 public:
  ArrayInspector(const ArraySource& source, const std::string& name)
      : source_(source), name_(name), what_("dataset '" + name + "' ") {}

  OpenedArray run() {
    open();
    StoredArray array;
    array.name = name_;
    array.dtype = dtype();
    array.shape = shape();
    check_shape(array);
    locate(array);
    return {std::move(dataset_), std::move(array)};
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& why, const char* advice = "") const {
    throw DataError(source_.path.string() + ": " + what, why, advice);
  }
  [[noreturn]] void fail_corrupt() const {
    fail("corrupt metadata of '" + name_ + "'", hdf5::last_error(), k_copy_again);
  }

  void open() {
    H5L_info_t link{};
    if (H5Lget_info(source_.file, name_.c_str(), &link, H5P_DEFAULT) < 0) fail_corrupt();
    if (link.type == H5L_TYPE_EXTERNAL) {
      fail(what_ + "is an external link", "its examples live in another file, and may be listed twice",
           "copy the data into the shard");
    }
    if (link.type != H5L_TYPE_HARD) fail(what_ + "is a soft link", "it must be in the shard itself", k_convert);
    dataset_ = hdf5::Object(H5Oopen(source_.file, name_.c_str(), H5P_DEFAULT));
    if (!dataset_) fail_corrupt();
    if (H5Iget_type(dataset_.get()) != H5I_DATASET) fail("'" + name_ + "' is not a dataset", "it is a group or a type");
  }

  [[nodiscard]] DType dtype() const {
    const hdf5::Type type(H5Dget_type(dataset_.get()));
    if (!type) fail_corrupt();
    for (const DType dtype :
         {DType::u8, DType::i8, DType::f16, DType::f32, DType::i32, DType::i64, DType::u32, DType::u64}) {
      if (H5Tequal(type.get(), hdf5::stored_type(dtype).get()) > 0) return dtype;
    }
    const bool variable = H5Tget_class(type.get()) == H5T_VLEN || H5Tis_variable_str(type.get()) > 0;
    fail(what_ + "is " + (variable ? "of variable length (vlen)" : describe(type.get())),
         "u8, i8, f16, f32, i32 and i64, little-endian, are read",
         variable ? "store it as x_values and x_offsets, as docs/formats.md says" : k_convert);
  }

  static std::string describe(hid_t type) {
    const std::string bits = std::to_string(8 * H5Tget_size(type));
    const std::string order = H5Tget_order(type) == H5T_ORDER_BE ? "big-endian " : "";
    switch (H5Tget_class(type)) {
      case H5T_INTEGER:
        return order + (H5Tget_sign(type) == H5T_SGN_NONE ? "unsigned " : "signed ") + bits + "-bit integers";
      case H5T_FLOAT:
        return order + "float" + bits;
      case H5T_STRING:
        return "text";
      default:
        return "of a compound or other type";
    }
  }

  [[nodiscard]] std::vector<std::int64_t> shape() const {
    const hdf5::Space space(H5Dget_space(dataset_.get()));
    const int rank = space ? H5Sget_simple_extent_ndims(space.get()) : -1;
    if (rank < 0) fail_corrupt();
    if (rank == 0 || rank > k_max_rank) {
      fail(what_ + "has " + std::to_string(rank) + " dimensions", "the first one counts the examples", k_convert);
    }
    std::array<hsize_t, H5S_MAX_RANK> dims{};
    H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
    std::vector<std::int64_t> shape;
    for (int i = 0; i < rank; ++i) {
      const hsize_t dim = dims[static_cast<std::size_t>(i)];
      shape.push_back(std::in_range<std::int64_t>(dim) ? static_cast<std::int64_t>(dim) : -1);
    }
    return shape;
  }

  void check_shape(StoredArray& array) const {
    const std::optional<std::int64_t> elements = count_elements(array.shape);
    if (!elements || *elements > std::numeric_limits<std::int64_t>::max() / 8) {
      fail(what_ + "is too large", "its shape is " + format_shape(array.shape));
    }
    if (*elements == 0 && array.shape.front() != 0) {
      fail(what_ + "has examples without elements", "its shape is " + format_shape(array.shape));
    }
    array.bytes = static_cast<std::uint64_t>(*elements) * item_size(array.dtype);
  }

  // HDF5 reads storage that was never written, and virtual storage whose source is missing, as zeros and without an
  // error; neither has an offset in the file.
  void locate(StoredArray& array) const {
    const hdf5::Properties creation(H5Dget_create_plist(dataset_.get()));
    if (!creation) fail_corrupt();
    check_filters(creation.get());
    check_layout(creation.get(), array);
    if (array.bytes == 0) return;
    const haddr_t offset = H5Dget_offset(dataset_.get());
    if (offset == HADDR_UNDEF) fail(what_ + "was never written", "it would read as zeros", k_convert);
    const auto size = static_cast<std::uint64_t>(source_.file_bytes);
    if (offset > size || array.bytes > size - offset || H5Dget_storage_size(dataset_.get()) != array.bytes) {
      fail(what_ + "does not fit in the file",
           std::to_string(array.bytes) + " bytes at " + std::to_string(offset) + " of " + std::to_string(size),
           k_copy_again);
    }
    array.offset = offset;
  }

  void check_filters(hid_t creation) const {
    const int filters = H5Pget_nfilters(creation);
    for (int i = 0; i < filters; ++i) {
      unsigned flags = 0;
      unsigned config = 0;
      std::size_t values = 0;
      const H5Z_filter_t filter =
          H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &config);
      if (filter >= 0 && H5Zfilter_avail(filter) <= 0) {
        fail(what_ + "needs filter " + std::to_string(filter), "it is not available here", k_convert);
      }
    }
  }

  void check_layout(hid_t creation, const StoredArray& array) const {
    switch (H5Pget_layout(creation)) {
      case H5D_CONTIGUOUS:
        break;
      case H5D_CHUNKED:
        if (H5Dget_storage_size(dataset_.get()) == 0) {
          fail(what_ + "was never written", "not one chunk of its " + format_shape(array.shape) + " is in the file",
               k_convert);
        }
        fail(what_ + "is chunked", "random rows out of chunks are slow to read", k_convert);
      case H5D_VIRTUAL:
        fail(what_ + "is virtual", "HDF5 reads zeros where a source file is missing",
             "list the source shards in a manifest");
      default:
        fail(what_ + "is stored inside the metadata", "contiguous storage is expected", k_convert);
    }
    if (H5Pget_external_count(creation) > 0) {
      fail(what_ + "keeps its data in an external file", "that file may hold anything", "copy the data into the shard");
    }
  }

  const ArraySource& source_;
  const std::string& name_;
  const std::string what_;
  hdf5::Object dataset_;
};

}  // namespace

OpenedArray open_array(const ArraySource& source, const std::string& name) {
  return ArrayInspector(source, name).run();
}

}  // namespace ripieno::io
