#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/hdf5_attributes_internal.hpp>
#include <ripieno/io/hdf5_handle_internal.hpp>
#include <ripieno/io/shard_info.hpp>
#include <ripieno/io/stored_array_internal.hpp>
#include <string_view>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;
using hdf5::AttributeReader;

constexpr std::int64_t k_format_version = 1;
const std::string k_convert = "write it again as docs/formats.md says";
const std::string k_copy_again = "copy or import the file again";

bool starts_with(std::span<const char> bytes, std::string_view prefix) {
  return bytes.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), bytes.begin());
}

void check_is_hdf5(const OpenFile& file, const fs::path& path) {
  const std::string what = path.string() + " is not an HDF5 file";
  if (file.identity.bytes == 0) throw DataError(what, "it is empty", k_copy_again);
  std::array<char, 512> head{};
  const auto length = static_cast<std::size_t>(std::min<std::int64_t>(file.identity.bytes, head.size()));
  read_at(file.fd.get(), 0, std::as_writable_bytes(std::span(head).first(length)), path);
  const auto bytes = std::span<const char>(head).first(length);
  if (starts_with(bytes, "PK\x03\x04")) throw DataError(what, "it looks like a zip archive (npz or keras)", k_convert);
  if (starts_with(bytes, "version https://git-lfs")) {
    throw DataError(what, "it is a Git LFS pointer", "run git lfs pull");
  }
  if (starts_with(bytes, "\x1f\x8b")) throw DataError(what, "it is compressed with gzip", "unpack it first");
  static constexpr std::string_view k_signature = "\x89HDF\r\n\x1a\n";
  // A user block of 512, 1024, 2048, ... bytes may come before the signature.
  for (std::int64_t at = 0; at + 8 <= file.identity.bytes; at = at == 0 ? 512 : 2 * at) {
    std::array<char, 8> found{};
    read_at(file.fd.get(), static_cast<std::uint64_t>(at), std::as_writable_bytes(std::span(found)), path);
    if (starts_with(found, k_signature)) return;
  }
  throw DataError(what, "no HDF5 signature at byte 0, 512, 1024, ...", k_copy_again);
}

class Inspector {
 public:
  /// Needs a Session from here to the destructor.
  Inspector(const OpenFile& opened, const fs::path& path) : opened_(opened) {
    info_.path = path;
    info_.identity = opened.identity;
  }

  ShardInfo run() {
    open_file();
    const AttributeReader root(file_.get(), info_.path.string());
    const bool has_format = check_version(root);
    list_members();
    read_arrays();
    if (!has_format) {
      fail("no dpshard format attributes", "a foreign HDF5 file: it does not say which examples it holds", k_convert);
    }
    read_root(root);
    check_counts();
    check_digests();
    return std::move(info_);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& why, const std::string& advice = {}) const {
    throw DataError(info_.path.string() + ": " + what, why, advice);
  }

  void open_file() {
    // By descriptor: the file that was examined is the file that is opened.
    const std::string held = "/proc/self/fd/" + std::to_string(opened_.fd.get());
    const hdf5::Properties access = hdf5::file_access();  // to the end: closing it clears the error
    file_ = hdf5::File(H5Fopen(held.c_str(), H5F_ACC_RDONLY, access.get()));
    if (file_) return;
    const std::string error = hdf5::last_error();
    if (error.find("truncated file") != std::string::npos) fail("the file is truncated", error, k_copy_again);
    fail("cannot open as HDF5", error, k_copy_again);
  }

  bool check_version(const AttributeReader& root) const {
    if (!root.has("format")) return false;
    if (const std::string format = root.required_text("format"); format != "dpshard") {
      fail("unknown format '" + format + "'", "'dpshard' is expected", k_convert);
    }
    const std::int64_t version = root.required_integer("format_version");
    if (version != k_format_version) {
      fail("format version " + std::to_string(version) + " is not supported",
           "this program reads version " + std::to_string(k_format_version), "use a newer ripieno");
    }
    return true;
  }

  void list_members() {
    H5G_info_t group{};
    if (H5Gget_info(file_.get(), &group) < 0) fail("corrupt metadata", hdf5::last_error(), k_copy_again);
    const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* members) -> herr_t {
      auto& names = *static_cast<std::vector<std::string>*>(members);
      names.emplace_back(name);
      return names.size() < 1000 ? 0 : 1;
    };
    if (H5Literate(file_.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &members_) < 0) {
      fail("corrupt metadata", hdf5::last_error(), k_copy_again);
    }
  }

  [[nodiscard]] bool has_member(std::string_view name) const {
    return std::find(members_.begin(), members_.end(), name) != members_.end();
  }

  [[noreturn]] void fail_missing(const std::string& name) const {
    std::string advice = k_convert;
    for (const std::string& member : members_) {
      if (member.starts_with(name + "_")) advice = "did you mean '" + member + "'? Rename it to '" + name + "'";
    }
    fail("no dataset '" + name + "'", members_.empty() ? "the file holds none" : "datasets there: " + join(members_),
         advice);
  }

  void read_arrays() {
    if (has_member("x_values") || has_member("x_offsets")) {
      info_.sequence_values = read_array("x_values");
      info_.sequence_offsets = read_array("x_offsets");
      if (has_member("y")) info_.y = read_array("y");
      check_sequence_types();
    } else {
      info_.x = read_array("x");
      info_.y = read_array("y");
      check_normalisation();
    }
    if (info_.y) check_labels_type();
    if (has_member("id")) info_.id = read_array("id");
    if (has_member("x_crc32c")) info_.crc32c = read_array("x_crc32c");
    check_companion_types();
  }

  StoredArray read_array(const std::string& name) {
    if (!has_member(name)) fail_missing(name);
    OpenedArray opened = open_array({file_.get(), info_.path, info_.identity.bytes}, name);
    read_array_attributes(opened.dataset.get(), opened.array);
    return std::move(opened.array);
  }

  void read_array_attributes(hid_t dataset, StoredArray& array) {
    const AttributeReader attributes(dataset, info_.path.string() + ": dataset '" + array.name + "'");
    array.sha256 = attributes.text("sha256").value_or("");
    if (array.name == "x" || array.name == "x_values") {
      info_.vocab_size = attributes.integer("vocab_size").value_or(0);
      info_.pad_id = attributes.integer("pad_id").value_or(0);
      info_.tokenizer = attributes.text("tokenizer").value_or("");
      info_.tokenizer_sha256 = attributes.text("tokenizer_sha256").value_or("");
    }
    if (array.name == "x") {
      const std::vector<float> scale = attributes.numbers("norm_scale");
      if (scale.size() > 1) fail("norm_scale of 'x' has several entries", "one is expected");
      if (!scale.empty()) info_.normalisation.scale = scale.front();
      info_.normalisation.mean = attributes.numbers("norm_mean");
      info_.normalisation.std = attributes.numbers("norm_std");
    } else if (array.name == "y") {
      info_.num_classes = attributes.integer("num_classes").value_or(0);
      info_.class_names = attributes.texts("class_names");
      info_.ignore_index = attributes.integer("ignore_index");
    }
  }

  void check_normalisation() const {
    if (info_.x->dtype == DType::u32 || info_.x->dtype == DType::u64) {
      fail("dataset 'x' is of unsigned " + std::to_string(8 * item_size(info_.x->dtype)) + "-bit integers",
           "u8, i8, f16, f32, i32 and i64, little-endian, are read", k_convert);
    }
    const Normalisation& norm = info_.normalisation;
    const auto finite = [](float value) { return std::isfinite(value); };
    if (norm.mean.size() != norm.std.size()) fail("norm_mean and norm_std of 'x' differ in length", "both or none");
    const std::vector<std::int64_t> shape = info_.example_shape();
    const std::size_t channels = norm.mean.size();
    if (channels > 1 && (shape.empty() || std::cmp_not_equal(channels, shape.front()))) {
      fail("norm_mean of 'x' has " + std::to_string(channels) + " entries",
           "an example is " + format_shape(shape) + "; one entry, or one per channel, is expected");
    }
    if (!finite(norm.scale) || !std::all_of(norm.mean.begin(), norm.mean.end(), finite) ||
        !std::all_of(norm.std.begin(), norm.std.end(), [&](float value) { return finite(value) && value > 0; })) {
      fail("the normalisation of 'x' is unusable", "scale and mean must be finite, std positive");
    }
  }

  void check_sequence_types() const {
    const StoredArray& offsets = *info_.sequence_offsets;
    if (offsets.dtype != DType::i64 || offsets.shape.size() != 1 || offsets.shape[0] < 1) {
      fail("dataset 'x_offsets' is " + std::string(dtype_name(offsets.dtype)) + " " + format_shape(offsets.shape),
           "i64 of one entry more than there are examples is expected");
    }
    if (info_.sequence_values->shape.size() != 1) fail("dataset 'x_values' is not a list", "one dimension is expected");
  }

  void check_labels_type() const {
    const StoredArray& y = *info_.y;
    if (y.dtype != DType::i32 && y.dtype != DType::i64 && y.dtype != DType::f32) {
      fail("dataset 'y' is " + std::string(dtype_name(y.dtype)) + " " + format_shape(y.shape),
           "labels are i32, i64 or f32", k_convert);
    }
    if (info_.num_classes < 0) fail("num_classes of 'y' is negative", std::to_string(info_.num_classes));
    if (!info_.class_names.empty() && std::cmp_not_equal(info_.class_names.size(), info_.num_classes)) {
      fail("'y' names " + std::to_string(info_.class_names.size()) + " classes",
           "num_classes is " + std::to_string(info_.num_classes));
    }
  }

  void check_companion_types() const {
    const auto refuse = [this](const StoredArray& array, const char* expected) {
      fail("dataset '" + array.name + "' is " + std::string(dtype_name(array.dtype)) + " " + format_shape(array.shape),
           expected, k_convert);
    };
    if (info_.crc32c && (info_.crc32c->dtype != DType::u32 || info_.crc32c->shape.size() != 1)) {
      refuse(*info_.crc32c, "one u32 an example is expected");
    }
    if (!info_.id) return;
    const bool number = info_.id->dtype == DType::u64 && info_.id->shape.size() == 1;
    const bool bytes = info_.id->dtype == DType::u8 && info_.id->shape.size() == 2 && info_.id->shape[1] == 16;
    if (!number && !bytes) refuse(*info_.id, "one u64 or 16 u8 an example are expected");
  }

  void read_root(const AttributeReader& root) {
    info_.dataset_name = root.required_text("dataset_name");
    info_.dataset_id = root.required_text("dataset_id");
    if (info_.dataset_id.empty()) fail("attribute 'dataset_id' is empty", "the privacy ledger names the data by it");
    info_.split = root.text("split").value_or("");
    info_.shard_index = root.required_integer("shard_index");
    info_.shard_count = root.required_integer("shard_count");
    info_.num_examples = root.required_integer("num_examples");
    info_.example_offset = root.required_integer("example_offset");
    info_.shard_uuid = root.required_text("shard_uuid");
    info_.content_sha256 = root.text("content_sha256").value_or("");
    info_.provenance = root.text("provenance").value_or("");
    info_.created = root.text("created").value_or("");
    info_.import_source = root.text("import_source").value_or("");
    const std::string unit = root.text("privacy_unit").value_or("example");
    try {
      info_.privacy_unit = parse_privacy_unit(unit);
    } catch (const UsageError&) {
      fail("unknown privacy_unit '" + unit + "'", "example, user or public is expected");
    }
  }

  void check_counts() const {
    if (info_.num_examples < 0 || info_.example_offset < 0 ||
        info_.example_offset > std::numeric_limits<std::int64_t>::max() - info_.num_examples) {
      fail("num_examples or example_offset is out of range",
           std::to_string(info_.num_examples) + " examples from " + std::to_string(info_.example_offset));
    }
    if (info_.shard_index < 0 || info_.shard_index >= info_.shard_count) {
      fail("shard_index " + std::to_string(info_.shard_index) + " is out of range",
           "shard_count is " + std::to_string(info_.shard_count));
    }
    const std::int64_t rows = info_.x ? info_.x->shape[0] : info_.sequence_offsets->shape[0] - 1;
    const char* const rows_of = info_.x ? "x" : "x_offsets";
    for (const auto* other : {&info_.y, &info_.id, &info_.crc32c}) {
      if (!*other || (*other)->shape[0] == rows) continue;
      fail("datasets '" + std::string(rows_of) + "' and '" + (*other)->name + "' differ in length",
           std::to_string(rows) + " and " + std::to_string((*other)->shape[0]) + " examples", k_convert);
    }
    if (info_.num_examples != rows) {
      fail("num_examples is " + std::to_string(info_.num_examples),
           "dataset '" + std::string(rows_of) + "' holds " + std::to_string(rows) +
               "; the number of examples enters the privacy accounting",
           k_convert);
    }
  }

  void check_digests() const {
    for (const StoredArray* array : info_.arrays()) {
      if (array->sha256.size() != 64) {
        fail("dataset '" + array->name + "' has no usable sha256 attribute", "damage could not be noticed", k_convert);
      }
    }
    if (!info_.content_sha256.empty() && info_.content_sha256 != content_digest(info_.arrays())) {
      fail("content_sha256 does not belong to the datasets", "the shard was edited after it was written", k_copy_again);
    }
  }

  const OpenFile& opened_;
  ShardInfo info_;
  hdf5::File file_;
  std::vector<std::string> members_;
};

}  // namespace

std::vector<const StoredArray*> ShardInfo::arrays() const {
  std::vector<const StoredArray*> all;
  for (const auto* array : {&id, &x, &crc32c, &sequence_offsets, &sequence_values, &y}) {
    if (array->has_value()) all.push_back(&**array);
  }
  return all;
}

std::vector<std::int64_t> ShardInfo::example_shape() const {
  return x ? std::vector<std::int64_t>(x->shape.begin() + 1, x->shape.end()) : std::vector<std::int64_t>{};
}

std::vector<std::int64_t> ShardInfo::label_shape() const {
  return y ? std::vector<std::int64_t>(y->shape.begin() + 1, y->shape.end()) : std::vector<std::int64_t>{};
}

std::string format_shape(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> parts;
  for (const std::int64_t dim : shape) parts.push_back(dim < 0 ? "huge" : std::to_string(dim));
  return std::string("[").append(join(parts)).append("]");
}

std::optional<std::int64_t> count_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(product, dim, &product)) return std::nullopt;
  }
  return product;
}

std::string content_digest(const std::vector<const StoredArray*>& arrays) {
  Sha256 hash;
  for (const StoredArray* array : arrays) {
    hash.update(array->name).update(" ").update(dtype_name(array->dtype)).update(" ");
    hash.update(format_shape(array->shape)).update(" ").update(array->sha256).update("\n");
  }
  return to_hex(hash.finish());
}

ShardInfo inspect_shard(const fs::path& path) {
  const OpenFile opened = open_regular_file(path);
  check_is_hdf5(opened, path);
  const hdf5::Session session;
  return Inspector(opened, path).run();
}

}  // namespace ripieno::io
