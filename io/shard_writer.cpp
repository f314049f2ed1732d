#include <algorithm>
#include <array>
#include <bit>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/hdf5_attributes_internal.hpp>
#include <ripieno/io/shard_writer_internal.hpp>
#include <ripieno/io/uuid.hpp>

namespace ripieno::io {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are written as they lie in memory");

constexpr hsize_t k_alignment = 4096;

hdf5::File create_file(const std::filesystem::path& path) {
  const hdf5::Properties access = hdf5::file_access();
  H5Pset_alignment(access.get(), k_alignment, k_alignment);
  // Raw data of any size is aligned only when it does not share a block with other small data.
  H5Pset_small_data_block_size(access.get(), 0);
  const hdf5::Properties creation(H5Pcreate(H5P_FILE_CREATE));
  H5Pset_obj_track_times(creation.get(), false);
  return hdf5::File(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()));
}

}  // namespace

ShardWriter::ShardWriter(const std::filesystem::path& path, const DatasetSpec& spec, ShardPlace place)
    : path_(path), spec_(spec), place_(place) {
  const hdf5::Session session;
  file_ = create_file(path);
  if (!file_) fail();
  std::vector<std::int64_t> shape{place.num_examples};
  shape.insert(shape.end(), spec.example_shape.begin(), spec.example_shape.end());
  x_ = create("x", spec.dtype, std::move(shape));
  y_ = create("y", DType::i64, {place.num_examples});
}

ShardWriter::~ShardWriter() {
  const hdf5::Session session;
  x_.dataset = {};
  y_.dataset = {};
  file_ = {};
}

void ShardWriter::fail() const { throw DataError("cannot write " + path_.string(), hdf5::last_error()); }

ShardWriter::Column ShardWriter::create(const char* name, DType dtype, std::vector<std::int64_t> shape) const {
  std::vector<hsize_t> dims;
  for (const std::int64_t dim : shape) dims.push_back(static_cast<hsize_t>(dim));
  const hdf5::Space space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
  const hdf5::Properties creation(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_layout(creation.get(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(creation.get(), false);
  Column column;
  column.array = {.name = name, .dtype = dtype, .shape = std::move(shape), .offset = 0, .bytes = 0, .sha256 = {}};
  column.dataset = hdf5::Dataset(H5Dcreate2(file_.get(), name, hdf5::stored_type(dtype).get(), space.get(), H5P_DEFAULT,
                                            creation.get(), H5P_DEFAULT));
  if (!column.dataset) fail();
  return column;
}

void ShardWriter::append(std::span<const std::byte> x, std::span<const std::int64_t> y) {
  const hdf5::Session session;
  const auto rows = static_cast<std::int64_t>(y.size());
  write_rows(x_, x, rows);
  write_rows(y_, std::as_bytes(y), rows);
  written_ += rows;
}

void ShardWriter::write_rows(Column& column, std::span<const std::byte> bytes, std::int64_t rows) {
  std::vector<hsize_t> start(column.array.shape.size(), 0);
  std::vector<hsize_t> count(column.array.shape.begin(), column.array.shape.end());
  start[0] = static_cast<hsize_t>(written_);
  count[0] = static_cast<hsize_t>(rows);
  const hdf5::Space stored(H5Dget_space(column.dataset.get()));
  const hdf5::Space memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
  const hdf5::Type type = hdf5::stored_type(column.array.dtype);
  if (H5Sselect_hyperslab(stored.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
      H5Dwrite(column.dataset.get(), type.get(), memory.get(), stored.get(), H5P_DEFAULT, bytes.data()) < 0) {
    fail();
  }
  column.hash.update({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

ManifestEntry ShardWriter::close() {
  for (Column* column : {&x_, &y_}) column->array.sha256 = to_hex(column->hash.finish());
  const std::string content = content_digest({&x_.array, &y_.array});
  const std::string uuid = uuid_of(spec_.dataset_id + "/" + spec_.split + "/" + std::to_string(place_.index) + "/" +
                                   std::to_string(spec_.num_shards));
  {
    const hdf5::Session session;
    write_attributes(content, uuid);
    if (!x_.dataset.reset() || !y_.dataset.reset() || !file_.reset()) fail();
  }
  sync_to_disk(path_);
  return {.path = {},
          .num_examples = place_.num_examples,
          .offset = place_.example_offset,
          .bytes = static_cast<std::int64_t>(std::filesystem::file_size(path_)),
          .shard_uuid = uuid,
          .content_sha256 = content};
}

void ShardWriter::write_attributes(const std::string& content_sha256, const std::string& shard_uuid) {
  using hdf5::write_attribute;
  const hid_t root = file_.get();
  write_attribute(root, "format", std::string_view("dpshard"));
  write_attribute(root, "format_version", std::int64_t{1});
  write_attribute(root, "dataset_name", spec_.dataset_name);
  write_attribute(root, "dataset_id", spec_.dataset_id);
  write_attribute(root, "split", spec_.split);
  write_attribute(root, "privacy_unit", privacy_unit_name(spec_.privacy_unit));
  write_attribute(root, "shard_index", place_.index);
  write_attribute(root, "shard_count", spec_.num_shards);
  write_attribute(root, "num_examples", place_.num_examples);
  write_attribute(root, "example_offset", place_.example_offset);
  write_attribute(root, "shard_uuid", shard_uuid);
  write_attribute(root, "content_sha256", content_sha256);
  write_attribute(root, "created", *spec_.created);
  write_attribute(root, "provenance", spec_.provenance);

  const hid_t x = x_.dataset.get();
  write_attribute(x, "sha256", x_.array.sha256);
  write_attribute(x, "norm_scale", std::span(&spec_.normalisation.scale, 1));
  if (!spec_.normalisation.mean.empty()) {
    write_attribute(x, "norm_mean", std::span(spec_.normalisation.mean));
    write_attribute(x, "norm_std", std::span(spec_.normalisation.std));
  }
  const hid_t y = y_.dataset.get();
  write_attribute(y, "sha256", y_.array.sha256);
  if (spec_.num_classes > 0) write_attribute(y, "num_classes", spec_.num_classes);
  if (!spec_.class_names.empty()) write_attribute(y, "class_names", std::span(spec_.class_names));
}

}  // namespace ripieno::io
