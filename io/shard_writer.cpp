#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <bit>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/crc32c.hpp>
#include <ripieno/io/hdf5_attributes_internal.hpp>
#include <ripieno/io/shard_writer_internal.hpp>
#include <ripieno/io/uuid.hpp>

namespace ripieno::io {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are written as they lie in memory");

constexpr hsize_t k_alignment = 4096;
constexpr std::size_t k_copy_bytes = 1 << 20;

hdf5::File create_file(const std::filesystem::path& path) {
  const hdf5::Properties access = hdf5::file_access();
  H5Pset_alignment(access.get(), k_alignment, k_alignment);
  // Raw data of any size is aligned only when it does not share a block with other small data.
  H5Pset_small_data_block_size(access.get(), 0);
  const hdf5::Properties creation(H5Pcreate(H5P_FILE_CREATE));
  H5Pset_obj_track_times(creation.get(), false);
  return hdf5::File(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()));
}

std::vector<std::int64_t> with_rows(std::int64_t rows, const std::vector<std::int64_t>& row_shape) {
  std::vector<std::int64_t> shape{rows};
  shape.insert(shape.end(), row_shape.begin(), row_shape.end());
  return shape;
}

}  // namespace

ShardWriter::ShardWriter(const std::filesystem::path& path, const DatasetSpec& spec, ShardPlace place)
    : path_(path), spec_(spec), place_(place) {
  const hdf5::Session session;
  file_ = create_file(path);
  if (!file_) fail();
  lock_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ::flock(lock_.get(), LOCK_EX | LOCK_NB);  // file systems without locks do without
  const std::int64_t rows = place.num_examples;
  if (spec.ids) id_ = &add_column("id", DType::u64, {rows});
  if (!spec.sequences) x_ = &add_column("x", spec.dtype, with_rows(rows, spec.example_shape));
  if (spec.checksums) checksums_ = &add_column("x_crc32c", DType::u32, {rows});
  if (spec.sequences) {
    offsets_ = &add_column("x_offsets", DType::i64, {rows + 1});
    values_ = SpillFile::create(path.has_parent_path() ? path.parent_path() : ".");
    const std::int64_t zero = 0;
    write_rows(*offsets_, std::as_bytes(std::span(&zero, 1)), 1);
  }
  if (spec.labels) y_ = &add_column("y", spec.label_dtype, with_rows(rows, spec.label_shape));
}

ShardWriter::~ShardWriter() {
  const hdf5::Session session;
  columns_.clear();
  file_ = {};
}

void ShardWriter::fail() const { throw DataError("cannot write " + path_.string(), hdf5::last_error()); }

ShardWriter::Column& ShardWriter::add_column(const char* name, DType dtype, std::vector<std::int64_t> shape) {
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
  return columns_.emplace_back(std::move(column));
}

void ShardWriter::append(const Examples& examples) {
  const hdf5::Session session;
  if (x_ != nullptr) {
    write_rows(*x_, examples.x, examples.count);
  } else {
    values_.append(examples.x);
    write_lengths(examples.lengths);
  }
  if (checksums_ != nullptr) write_checksums(examples);
  if (y_ != nullptr) write_rows(*y_, examples.y, examples.count);
  if (id_ != nullptr) write_rows(*id_, std::as_bytes(examples.ids), examples.count);
  written_ += examples.count;
}

void ShardWriter::write_rows(Column& column, std::span<const std::byte> bytes, std::int64_t rows) {
  if (rows == 0) return;
  std::vector<hsize_t> start(column.array.shape.size(), 0);
  std::vector<hsize_t> count(column.array.shape.begin(), column.array.shape.end());
  start[0] = static_cast<hsize_t>(column.rows);
  count[0] = static_cast<hsize_t>(rows);
  const hdf5::Space stored(H5Dget_space(column.dataset.get()));
  const hdf5::Space memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
  const hdf5::Type type = hdf5::stored_type(column.array.dtype);
  if (H5Sselect_hyperslab(stored.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
      H5Dwrite(column.dataset.get(), type.get(), memory.get(), stored.get(), H5P_DEFAULT, bytes.data()) < 0) {
    fail();
  }
  column.hash.update({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  column.rows += rows;
}

void ShardWriter::write_lengths(std::span<const std::int64_t> lengths) {
  std::vector<std::int64_t> ends;
  for (const std::int64_t length : lengths) ends.push_back(num_values_ += length);
  write_rows(*offsets_, std::as_bytes(std::span(ends)), static_cast<std::int64_t>(ends.size()));
}

void ShardWriter::write_checksums(const Examples& examples) {
  std::vector<std::uint32_t> sums;
  const std::size_t width = item_size(spec_.dtype);
  std::size_t done = 0;
  for (std::int64_t i = 0; i < examples.count; ++i) {
    const std::size_t bytes = spec_.sequences
                                  ? static_cast<std::size_t>(examples.lengths[static_cast<std::size_t>(i)]) * width
                                  : examples.x.size() / static_cast<std::size_t>(examples.count);
    sums.push_back(crc32c(examples.x.subspan(done, bytes)));
    done += bytes;
  }
  write_rows(*checksums_, std::as_bytes(std::span(sums)), examples.count);
}

void ShardWriter::write_spilled_values() {
  Column& column = add_column("x_values", spec_.dtype, {num_values_});
  std::vector<std::byte> block;
  for (std::uint64_t done = 0; done < values_.size();) {
    block.resize(static_cast<std::size_t>(std::min<std::uint64_t>(k_copy_bytes, values_.size() - done)));
    values_.read(done, block);
    write_rows(column, block, static_cast<std::int64_t>(block.size() / item_size(spec_.dtype)));
    done += block.size();
  }
}

ManifestEntry ShardWriter::close() {
  const hdf5::Session session;
  if (spec_.sequences) write_spilled_values();
  std::vector<const StoredArray*> arrays;
  for (Column& column : columns_) {
    column.array.sha256 = to_hex(column.hash.finish());
    arrays.push_back(&column.array);
  }
  std::sort(arrays.begin(), arrays.end(), [](auto* a, auto* b) { return a->name < b->name; });
  const std::string content = content_digest(arrays);
  const std::string uuid = uuid_of(spec_.dataset_id + "/" + spec_.split + "/" + std::to_string(place_.index) + "/" +
                                   std::to_string(spec_.num_shards));
  write_root_attributes(content, uuid);
  for (Column& column : columns_) {
    write_column_attributes(column);
    if (!column.dataset.reset()) fail();
  }
  if (!file_.reset()) fail();
  sync_to_disk(path_);
  return {.path = {},
          .num_examples = place_.num_examples,
          .offset = place_.example_offset,
          .bytes = static_cast<std::int64_t>(std::filesystem::file_size(path_)),
          .shard_uuid = uuid,
          .content_sha256 = content};
}

void ShardWriter::write_root_attributes(const std::string& content_sha256, const std::string& shard_uuid) {
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
  if (!spec_.import_source.empty()) write_attribute(root, "import_source", spec_.import_source);
}

void ShardWriter::write_column_attributes(const Column& column) {
  using hdf5::write_attribute;
  const hid_t dataset = column.dataset.get();
  const std::string& name = column.array.name;
  write_attribute(dataset, "sha256", column.array.sha256);
  if ((name == "x" || name == "x_values") && spec_.vocab_size > 0) {
    write_attribute(dataset, "vocab_size", spec_.vocab_size);
    write_attribute(dataset, "pad_id", spec_.pad_id);
    write_attribute(dataset, "tokenizer", spec_.tokenizer);
  }
  if (name == "x") {
    write_attribute(dataset, "norm_scale", std::span(&spec_.normalisation.scale, 1));
    if (!spec_.normalisation.mean.empty()) {
      write_attribute(dataset, "norm_mean", std::span(spec_.normalisation.mean));
      write_attribute(dataset, "norm_std", std::span(spec_.normalisation.std));
    }
  } else if (name == "y") {
    if (spec_.num_classes > 0) write_attribute(dataset, "num_classes", spec_.num_classes);
    if (spec_.ignore_index) write_attribute(dataset, "ignore_index", *spec_.ignore_index);
    if (!spec_.class_names.empty()) write_attribute(dataset, "class_names", std::span(spec_.class_names));
  }
}

}  // namespace ripieno::io
