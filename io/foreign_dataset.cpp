#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <random>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/io/foreign_dataset.hpp>
#include <ripieno/io/hdf5_attributes_internal.hpp>
#include <ripieno/io/stored_array_internal.hpp>
#include <ripieno/io/uuid.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

StoredArray described(const ForeignArray& array, DType dtype) {
  StoredArray stored{
      .name = array.name(), .dtype = dtype, .shape = array.shape(), .offset = 0, .bytes = 0, .sha256 = {}};
  stored.bytes = static_cast<std::uint64_t>(*count_elements(stored.shape)) * item_size(dtype);
  return stored;
}

/// Where the dataset's bytes lie in the file, if they can be used as they are.
std::optional<StoredArray> direct(const ForeignArray& array, DType wanted) {
  const hdf5::Session session;
  const hdf5::Properties access = hdf5::file_access();
  const hdf5::File file(H5Fopen(array.path().c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file) return std::nullopt;
  try {
    OpenedArray opened = open_array({file.get(), array.path(), array.identity().bytes}, array.name());
    if (opened.array.dtype == wanted) return std::move(opened.array);
  } catch (const DataError&) {  // chunked, or of another type: HDF5 can read it
  }
  return std::nullopt;
}

std::string stated_id(const fs::path& path) {
  const hdf5::Session session;
  const hdf5::Properties access = hdf5::file_access();
  const hdf5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file) return {};
  try {
    return hdf5::AttributeReader(file.get(), path.string()).text("dataset_id").value_or("");
  } catch (const DataError&) {  // an attribute of that name, but no text
    return {};
  }
}

DType label_type(const ForeignArray& y) {
  return y.type().kind == ForeignType::Kind::floating ? DType::f32 : DType::i64;
}

std::int64_t count_classes(const ForeignArray& y) {
  constexpr std::int64_t k_block = 1 << 16;
  std::int64_t largest = 0;
  std::vector<std::int64_t> block;
  for (std::int64_t first = 0; first < y.shape().front(); first += k_block) {
    block.resize(static_cast<std::size_t>(std::min(k_block, y.shape().front() - first)));
    y.read_rows(first, static_cast<std::int64_t>(block.size()), DType::i64, std::as_writable_bytes(std::span(block)));
    largest = std::max(largest, *std::max_element(block.begin(), block.end()));
  }
  return largest + 1;
}

/// How many times longer some random rows take through HDF5 than as many bytes read straight from the file.
double slowdown(const ForeignArray& x, DType dtype) {
  constexpr std::int64_t k_tries = 48;
  std::mt19937_64 engine(1);
  std::vector<std::byte> row(static_cast<std::size_t>(x.row_elements()) * item_size(dtype));
  double through_hdf5 = 0;
  double straight = 0;
  const OpenFile file = open_regular_file(x.path());
  const auto room = std::max<std::int64_t>(1, file.identity.bytes - static_cast<std::int64_t>(row.size()));
  const auto most = static_cast<std::size_t>(file.identity.bytes);
  for (std::int64_t i = 0; i < k_tries && through_hdf5 < 1; ++i) {
    const auto index = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(x.shape().front()));
    Clock::time_point start = Clock::now();
    x.read_rows(index, 1, dtype, row);
    through_hdf5 += seconds_since(start);
    const std::uint64_t offset = engine() % static_cast<std::uint64_t>(room);
    read_at(file.fd.get(), offset, std::span(row).first(std::min(row.size(), most)), x.path());  // into the page cache
    start = Clock::now();
    read_at(file.fd.get(), offset, std::span(row).first(std::min(row.size(), most)), x.path());
    straight += seconds_since(start);
  }
  return straight > 0 ? through_hdf5 / straight : 1;
}

void warn_of_slowness(const ForeignArray& x, DType dtype, const FieldMap& fields) {
  std::array<char, 32> times{};
  std::snprintf(times.data(), times.size(), "%.0f", std::max(1.0, slowdown(x, dtype)));
  log::warning(x.path().string() + ": dataset '" + x.name() + "' (" + x.type().text() + ", " + x.storage() +
               ") is read through HDF5, random rows about " + times.data() +
               " times slower than from a shard; convert it once with: ripieno-dataset import hdf5 --from " +
               x.path().string() + " --x " + fields.x + " --y " + fields.y + " --out DIR");
}

}  // namespace

ForeignDataset open_foreign_dataset(const fs::path& path, const FieldMap& fields) {
  const std::array<std::string, 2> names{fields.x, fields.y};
  try_foreign_arrays(path, names);
  ForeignArray x(path, fields.x);
  ForeignArray y(path, fields.y);
  if (x.shape().front() != y.shape().front()) {
    throw DataError(path.string() + ": datasets '" + fields.x + "' and '" + fields.y + "' differ in length",
                    std::to_string(x.shape().front()) + " and " + std::to_string(y.shape().front()) + " examples");
  }
  ForeignDataset dataset{.info = {}, .arrays = std::make_unique<ForeignArrays>()};
  ShardInfo& info = dataset.info;
  info.path = path;
  info.identity = x.identity();
  info.num_examples = x.shape().front();
  info.dataset_name = path.stem().string();
  info.dataset_id = stated_id(path);
  if (info.dataset_id.empty()) {
    info.dataset_id = uuid_of("foreign/" + fs::absolute(path).string() + "/" + fields.x + "/" + fields.y + "/" +
                              std::to_string(info.num_examples));
  }
  info.shard_uuid = info.dataset_id;
  const DType x_type = x.type().stored();
  const bool bytes = x.type().kind != ForeignType::Kind::boolean && x_type == DType::u8;
  info.normalisation.scale = bytes ? 1.0F / 255.0F : 1.0F;
  info.x = direct(x, x_type);
  info.y = direct(y, label_type(y));
  if (label_type(y) == DType::i64 && y.shape().size() == 1) info.num_classes = count_classes(y);
  if (!info.x) {
    info.x = described(x, x_type);
    warn_of_slowness(x, x_type, fields);
    dataset.arrays->x.emplace(std::move(x));
  }
  if (!info.y) {
    info.y = described(y, label_type(y));
    dataset.arrays->y.emplace(std::move(y));
  }
  if (!dataset.arrays->x && !dataset.arrays->y) dataset.arrays.reset();
  return dataset;
}

}  // namespace ripieno::io
