#include <algorithm>
#include <array>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/crc32c.hpp>
#include <ripieno/io/example_ids.hpp>
#include <ripieno/io/manifest.hpp>
#include <ripieno/io/page_guard.hpp>
#include <ripieno/io/shard_content.hpp>
#include <ripieno/io/shard_set.hpp>
#include <ripieno/io/verified_stamp.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t k_automatic_full_bytes = std::int64_t{2} << 30;
// Neighbouring rows are read in one go where reading what lies between costs less than another round trip.
constexpr std::uint64_t k_gap_bytes = 16 << 10;
constexpr std::uint64_t k_run_bytes = 1 << 20;

bool is_small(const std::vector<ShardInfo>& shards) {
  std::int64_t bytes = 0;
  for (const ShardInfo& shard : shards) bytes += shard.identity.bytes;
  return bytes <= k_automatic_full_bytes;
}

std::vector<std::int64_t> first_ids(const std::vector<ShardInfo>& infos) {
  std::vector<std::int64_t> starts{0};
  for (const ShardInfo& info : infos) starts.push_back(info.example_offset + info.num_examples);
  return starts;
}

}  // namespace

ShardSet ShardSet::open(const fs::path& path, OpenOptions options) {
  if (options.fields) {
    ForeignDataset foreign = open_foreign_dataset(path, *options.fields);
    install_page_guard();
    std::vector<ShardInfo> infos;
    infos.push_back(std::move(foreign.info));
    return {std::move(infos), options, std::move(foreign.arrays)};
  }
  const fs::path manifest = resolve_manifest(path);
  std::vector<ShardInfo> infos = inspect_shards(read_manifest(manifest));
  const bool stamped = options.verify == Verify::automatic && is_stamped(manifest, infos);
  const bool full =
      options.verify == Verify::full || (options.verify == Verify::automatic && !stamped && is_small(infos));
  if (full) {
    for (const ShardInfo& info : infos) verify_content(info);
    check_unique_ids(infos);
    stamp(manifest, infos);
  }
  install_page_guard();
  ShardSet set(std::move(infos), options, nullptr);
  if (full || stamped) set.checked_.reset();
  return set;
}

ShardSet::ShardSet(std::vector<ShardInfo> infos, OpenOptions options, std::unique_ptr<ForeignArrays> foreign)
    : files_(infos, options.access),
      starts_(first_ids(infos)),
      example_shape_(infos.front().example_shape()),
      label_shape_(infos.front().label_shape()),
      example_numel_(*count_elements(example_shape_)),
      label_numel_(*count_elements(label_shape_)),
      labels_{infos.front().num_classes, infos.front().ignore_index},
      foreign_(std::move(foreign)) {
  if (has_sequences()) {
    if (is_floating(stored_dtype())) {
      throw DataError(first().path.string() + " holds sequences of floating-point numbers", "tokens are trained on");
    }
  } else {
    convert_ =
        std::make_unique<RowConverter>(stored_dtype(), first().normalisation, static_cast<std::size_t>(example_numel_));
  }
  if (first().crc32c) checked_ = std::make_unique<CheckedBits>(static_cast<std::size_t>(num_examples()) / 64 + 1);
}

DType ShardSet::label_dtype() const {
  if (!has_labels()) throw UsageError("dataset " + dataset_id() + " has no labels");
  return first().y->dtype;
}

void ShardSet::check_ids(std::span<const std::int64_t> ids, std::size_t expected_size, std::size_t size) const {
  if (size != expected_size) {
    throw UsageError("gather into " + std::to_string(size) + " elements",
                     std::to_string(expected_size) + " are needed");
  }
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= num_examples()) {
      throw UsageError("example id " + std::to_string(id) + " is out of range",
                       "the dataset has " + std::to_string(num_examples()) + " examples");
    }
  }
}

std::size_t ShardSet::row_bytes(ArrayOf array) const {
  const StoredArray& stored = *(first().*array);
  return static_cast<std::size_t>(*count_elements({stored.shape.begin() + 1, stored.shape.end()})) *
         item_size(stored.dtype);
}

// A fault leaves `body` without unwinding: it must own nothing.
template <class Body>
void ShardSet::guarded(Body body) const {
  if (read_guarded(body)) return;
  check_unchanged();
  throw DataError("a shard of dataset " + dataset_id() + " cannot be read", "its disk or file system reports an error");
}

// visit(position in ids, bytes of the row). It must own nothing where files are mapped (see guarded).
template <class Visit>
void ShardSet::for_each_row(std::span<const std::int64_t> ids, ArrayOf array, Visit visit) const {
  if (foreign_ && (array == &ShardInfo::x ? foreign_->x : foreign_->y)) return read_foreign(ids, array, visit);
  if (files_.is_mapped()) return for_each_mapped_row(ids, array, visit);
  for_each_extent(row_extents(ids, array), visit);
}

template <class Visit>
void ShardSet::for_each_mapped_row(std::span<const std::int64_t> ids, ArrayOf array, Visit visit) const {
  const std::size_t bytes = row_bytes(array);
  in_mapped_runs(ids, [&, this](std::size_t begin, std::span<const std::int64_t> run) {
    std::size_t known = files_.size();
    const std::byte* base = nullptr;
    for_each_id(run, [&, this](std::size_t i, std::size_t shard, std::uint64_t row) {
      if (shard != known) {
        known = shard;
        base = files_.data(shard) + (files_.info(shard).*array)->offset;
      }
      visit(begin + i, base + row * bytes);
    });
  });
}

// body(position of the first, some of `places`), guarded, for all of them.
template <class Place, class Body>
void ShardSet::in_mapped_runs(std::span<const Place> places, Body body) const {
  for (std::size_t begin = 0; begin < places.size(); begin += ShardFiles::k_reads_at_once) {
    const auto run = places.subspan(begin, std::min(ShardFiles::k_reads_at_once, places.size() - begin));
    guarded([&] { body(begin, run); });
    files_.trim();
  }
}

// The same for bytes anywhere in the files.
template <class Visit>
void ShardSet::for_each_extent(std::vector<Extent> extents, Visit visit) const {
  if (files_.is_mapped()) {
    in_mapped_runs(std::span<const Extent>(extents), [&, this](std::size_t, std::span<const Extent> run) {
      for (const Extent& extent : run) visit(extent.position, files_.data(extent.shard) + extent.offset);
    });
    return;
  }
  const auto before = [](const Extent& a, const Extent& b) {
    return std::pair(a.shard, a.offset) < std::pair(b.shard, b.offset);
  };
  if (!std::is_sorted(extents.begin(), extents.end(), before)) std::sort(extents.begin(), extents.end(), before);
  std::vector<std::byte> run;
  for (std::size_t begin = 0; begin < extents.size();) {
    const Extent& head = extents[begin];
    std::uint64_t run_end = head.offset + head.bytes;
    std::size_t end = begin + 1;
    for (; end < extents.size(); ++end) {
      const Extent& next = extents[end];
      const std::uint64_t next_end = std::max(run_end, next.offset + next.bytes);
      if (next.shard != head.shard || next.offset > run_end + k_gap_bytes || next_end - head.offset > k_run_bytes)
        break;
      run_end = next_end;
    }
    run.resize(static_cast<std::size_t>(run_end - head.offset));
    read_at(files_.descriptor(head.shard)->get(), head.offset, run, files_.info(head.shard).path);
    for (std::size_t i = begin; i < end; ++i)
      visit(extents[i].position, run.data() + (extents[i].offset - head.offset));
    begin = end;
  }
}

// Runs of neighbouring ids at once.
template <class Visit>
void ShardSet::read_foreign(std::span<const std::int64_t> ids, ArrayOf array, Visit visit) const {
  const ForeignArray& source = array == &ShardInfo::x ? *foreign_->x : *foreign_->y;
  const DType dtype = (first().*array)->dtype;
  const std::size_t bytes = row_bytes(array);
  std::vector<std::byte> rows;
  for (std::size_t begin = 0; begin < ids.size();) {
    std::size_t end = begin + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1 && (end - begin) * bytes < k_run_bytes) ++end;
    rows.resize((end - begin) * bytes);
    source.read_rows(ids[begin], static_cast<std::int64_t>(end - begin), dtype, rows);
    for (std::size_t i = begin; i < end; ++i) visit(i, rows.data() + (i - begin) * bytes);
    begin = end;
  }
}

std::vector<ShardSet::Extent> ShardSet::row_extents(std::span<const std::int64_t> ids, ArrayOf array) const {
  const std::size_t bytes = row_bytes(array);
  std::vector<Extent> extents;
  extents.reserve(ids.size());
  for_each_id(ids, [&](std::size_t i, std::size_t shard, std::uint64_t row) {
    extents.push_back({i, shard, (files_.info(shard).*array)->offset + row * bytes, bytes});
  });
  return extents;
}

std::vector<ShardSet::Extent> ShardSet::sequence_extents(std::span<const std::int64_t> ids) const {
  std::vector<Extent> offsets;
  for_each_id(ids, [&](std::size_t i, std::size_t shard, std::uint64_t row) {
    const std::uint64_t at = files_.info(shard).sequence_offsets->offset + row * sizeof(std::int64_t);
    offsets.push_back({i, shard, at, 2 * sizeof(std::int64_t)});
  });
  std::vector<std::array<std::int64_t, 2>> ends(ids.size());
  for_each_extent(offsets,
                  [&](std::size_t i, const std::byte* bytes) { std::memcpy(&ends[i], bytes, sizeof ends[i]); });
  const std::size_t width = item_size(stored_dtype());
  for (Extent& extent : offsets) {
    const StoredArray& stored = *files_.info(extent.shard).sequence_values;
    const auto [begin, end] = ends[extent.position];
    // Never beyond the file, whatever the offsets say.
    if (begin < 0 || end < begin || end > stored.shape.front()) {
      fail_example(ids[extent.position], "x_offsets", "is out of range", "offsets must ascend inside x_values",
                   "import the dataset again");
    }
    extent.offset = stored.offset + static_cast<std::uint64_t>(begin) * width;
    extent.bytes = static_cast<std::size_t>(end - begin) * width;
  }
  return offsets;
}

void ShardSet::check_first_delivery(std::span<const std::int64_t> ids) const {
  if (!checked_) return;
  std::vector<std::int64_t> fresh;
  const auto word_of = [this](std::int64_t id) -> std::atomic<std::uint64_t>& {
    return (*checked_)[static_cast<std::size_t>(id) / 64];
  };
  const auto bit_of = [](std::int64_t id) { return std::uint64_t{1} << (id % 64); };
  for (const std::int64_t id : ids) {
    if ((word_of(id).load(std::memory_order_relaxed) & bit_of(id)) == 0) fresh.push_back(id);
  }
  if (fresh.empty()) return;
  std::vector<std::uint32_t> stated(fresh.size()), found(fresh.size());
  for_each_row(fresh, &ShardInfo::crc32c,
               [&](std::size_t i, const std::byte* bytes) { std::memcpy(&stated[i], bytes, sizeof stated[i]); });
  if (has_sequences()) {
    std::vector<std::size_t> sizes(fresh.size());
    std::vector<Extent> extents = sequence_extents(fresh);
    for (const Extent& extent : extents) sizes[extent.position] = extent.bytes;
    for_each_extent(std::move(extents), [&](std::size_t i, const std::byte* bytes) {
      found[i] = crc32c({bytes, sizes[i]});
    });
  } else {
    const std::size_t bytes_a_row = row_bytes(&ShardInfo::x);
    for_each_row(fresh, &ShardInfo::x, [&](std::size_t i, const std::byte* bytes) {
      found[i] = crc32c({bytes, bytes_a_row});
    });
  }
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    if (stated[i] != found[i]) {
      fail_example(fresh[i], has_sequences() ? "x_values" : "x", "does not match its checksum",
                   "the data were damaged or edited after they were written", "copy or import the file again");
    }
    word_of(fresh[i]).fetch_or(bit_of(fresh[i]), std::memory_order_relaxed);
  }
}

void ShardSet::gather_x(std::span<const std::int64_t> ids, std::span<float> out) const {
  if (has_sequences()) throw UsageError("dataset " + dataset_id() + " holds sequences", "they have no common shape");
  const auto numel = static_cast<std::size_t>(example_numel_);
  check_ids(ids, ids.size() * numel, out.size());
  check_first_delivery(ids);
  for_each_row(ids, &ShardInfo::x,
               [&, this](std::size_t i, const std::byte* row) { (*convert_)(row, out.data() + i * numel); });
}

std::vector<std::int64_t> ShardSet::lengths(std::span<const std::int64_t> ids) const {
  check_ids(ids, 0, 0);
  std::vector<std::int64_t> lengths(ids.size(), example_numel_);
  if (!has_sequences()) return lengths;
  for (const Extent& extent : sequence_extents(ids)) {
    lengths[extent.position] = static_cast<std::int64_t>(extent.bytes / item_size(stored_dtype()));
  }
  return lengths;
}

namespace {

template <class T>
void widen(const std::byte* bytes, std::size_t count, std::int64_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof value, sizeof value);
    out[i] = static_cast<std::int64_t>(value);
  }
}

using Widen = void (*)(const std::byte* bytes, std::size_t count, std::int64_t* out);

Widen widen_from(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return widen<std::uint8_t>;
    case DType::i8:
      return widen<std::int8_t>;
    case DType::i32:
      return widen<std::int32_t>;
    case DType::i64:
      return widen<std::int64_t>;
    default:
      throw UsageError("floating-point numbers as integers");
  }
}

}  // namespace

void ShardSet::gather_tokens(std::span<const std::int64_t> ids, std::int64_t length,
                             std::span<std::int64_t> out) const {
  const auto row = static_cast<std::size_t>(length);
  check_ids(ids, ids.size() * row, out.size());
  check_first_delivery(ids);
  const Widen convert = widen_from(stored_dtype());
  const auto check_length = [&](std::int64_t values) {
    if (values > length)
      throw UsageError("a sequence of " + std::to_string(values) + " values in rows of " + std::to_string(length));
  };
  if (!has_sequences()) {
    check_length(example_numel_);
    std::fill(out.begin(), out.end(), pad_id());
    const auto numel = static_cast<std::size_t>(example_numel_);
    for_each_row(ids, &ShardInfo::x,
                 [&](std::size_t i, const std::byte* bytes) { convert(bytes, numel, out.data() + i * row); });
    return;
  }
  std::vector<Extent> extents = sequence_extents(ids);
  std::vector<std::size_t> counts(ids.size());
  for (const Extent& extent : extents) {
    counts[extent.position] = extent.bytes / item_size(stored_dtype());
    check_length(static_cast<std::int64_t>(counts[extent.position]));
  }
  std::fill(out.begin(), out.end(), pad_id());
  for_each_extent(std::move(extents),
                  [&](std::size_t i, const std::byte* bytes) { convert(bytes, counts[i], out.data() + i * row); });
}

void ShardSet::gather_y(std::span<const std::int64_t> ids, std::span<std::int64_t> out) const {
  const auto numel = static_cast<std::size_t>(label_numel_);
  check_ids(ids, ids.size() * numel, out.size());
  const Widen convert = widen_from(label_dtype());
  for_each_row(ids, &ShardInfo::y,
               [&](std::size_t i, const std::byte* row) { convert(row, numel, out.data() + i * numel); });
  check_labels(ids, out);
}

void ShardSet::gather_targets(std::span<const std::int64_t> ids, std::span<float> out) const {
  const auto numel = static_cast<std::size_t>(label_numel_);
  check_ids(ids, ids.size() * numel, out.size());
  if (label_dtype() != DType::f32) throw UsageError("integer labels as floating-point targets");
  for_each_row(ids, &ShardInfo::y, [&](std::size_t i, const std::byte* row) {
    std::memcpy(out.data() + i * numel, row, numel * sizeof(float));
  });
}

void ShardSet::check_labels(std::span<const std::int64_t> ids, std::span<const std::int64_t> labels) const {
  const auto bad = std::find_if_not(labels.begin(), labels.end(), [&](auto label) { return labels_.contains(label); });
  if (bad == labels.end()) return;
  fail_example(ids[static_cast<std::size_t>(bad - labels.begin()) / static_cast<std::size_t>(label_numel_)], "y",
               "has a label out of range", "outside [0, " + std::to_string(labels_.num_classes) + ")",
               "correct the source and import it again");
}

void ShardSet::fail_example(std::int64_t id, const char* dataset, const std::string& what, const std::string& why,
                            const std::string& advice) const {
  const auto shard =
      static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), id) - starts_.begin()) - 1;
  throw DataError(files_.info(shard).path.string() + ": dataset '" + dataset + "' example " +
                      std::to_string(id - starts_[shard]) + " " + what,
                  why, advice);
}

void ShardSet::check_unchanged() const {
  for (std::size_t shard = 0; shard < files_.size(); ++shard) files_.check_unchanged(shard);
}

void ShardSet::check_unchanged(std::span<const std::int64_t> ids) const {
  std::size_t last = files_.size();
  for_each_id(ids, [&](std::size_t, std::size_t shard, std::uint64_t) {
    if (shard != last) files_.check_unchanged(shard);
    last = shard;
  });
}

}  // namespace ripieno::io
