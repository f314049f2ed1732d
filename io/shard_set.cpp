#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/manifest.hpp>
#include <ripieno/io/page_guard.hpp>
#include <ripieno/io/shard_content.hpp>
#include <ripieno/io/shard_set.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t k_automatic_full_bytes = std::int64_t{2} << 30;

fs::path resolve_manifest(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  const std::vector<fs::path> manifests = find_manifests(path);
  if (manifests.size() == 1) return manifests.front();
  if (manifests.empty()) {
    throw DataError("no dataset in " + path.string(), "the folder holds no manifest NAME.json",
                    "import the dataset again, or name its manifest");
  }
  std::vector<std::string> names;
  for (const fs::path& manifest : manifests) names.push_back(manifest.filename().string());
  throw DataError(path.string() + " holds several datasets", join(names), "name one of them");
}

bool wants_full(Verify verify, const std::vector<ShardInfo>& shards) {
  if (verify != Verify::automatic) return verify == Verify::full;
  std::int64_t bytes = 0;
  for (const ShardInfo& shard : shards) bytes += shard.identity.bytes;
  return bytes <= k_automatic_full_bytes;
}

const ShardInfo& require_fixed_shape(const ShardInfo& shard) {
  if (shard.x) return shard;
  throw DataError(shard.path.string() + " holds sequences of variable length",
                  "x_values and x_offsets; examples of one shape are needed here");
}

}  // namespace

ShardSet ShardSet::open(const fs::path& path, OpenOptions options) {
  std::vector<ShardInfo> infos = inspect_shards(read_manifest(resolve_manifest(path)));
  require_fixed_shape(infos.front());
  if (wants_full(options.verify, infos)) {
    for (const ShardInfo& info : infos) verify_content(info);
  }
  install_page_guard();
  return ShardSet(std::move(infos));
}

ShardSet::ShardSet(std::vector<ShardInfo> infos)
    : starts_{0},
      example_shape_(infos.front().example_shape()),
      example_numel_(*count_elements(example_shape_)),
      convert_(infos.front().x->dtype, infos.front().normalisation, static_cast<std::size_t>(example_numel_)),
      labels_{infos.front().num_classes, infos.front().ignore_index} {
  for (ShardInfo& info : infos) {
    OpenFile file = open_regular_file(info.path);
    io::check_unchanged(info.path, file.fd.get(), info.identity);
    Mapping mapping(file.fd.get(), static_cast<std::size_t>(info.identity.bytes), info.path);
    const std::byte* const x = mapping.data() + info.x->offset;
    const std::byte* const y = mapping.data() + info.y->offset;
    starts_.push_back(info.example_offset + info.num_examples);
    shards_.push_back({std::move(info), std::move(file.fd), std::move(mapping), x, y});
  }
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

// visit(position in ids, shard, row in the shard). Runs of ids in one shard, the usual case, need no search.
template <class Visit>
void ShardSet::for_each_row(std::span<const std::int64_t> ids, Visit visit) const {
  std::size_t shard = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = ids[i];
    if (id < starts_[shard] || id >= starts_[shard + 1]) {
      shard = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), id) - starts_.begin()) - 1;
    }
    visit(i, shards_[shard], static_cast<std::size_t>(id - starts_[shard]));
  }
}

// A fault leaves `body` without unwinding: it must own nothing.
template <class Body>
void ShardSet::guarded(Body body) const {
  if (read_guarded(body)) return;
  check_unchanged();
  throw DataError("a shard of dataset " + dataset_id() + " cannot be read", "its disk or file system reports an error");
}

void ShardSet::gather_x(std::span<const std::int64_t> ids, std::span<float> out) const {
  const auto numel = static_cast<std::size_t>(example_numel_);
  check_ids(ids, ids.size() * numel, out.size());
  const std::size_t row_bytes = numel * item_size(stored_dtype());
  guarded([&, this] {
    for_each_row(ids, [&, this](std::size_t i, const Shard& shard, std::size_t row) {
      convert_(shard.x + row * row_bytes, out.data() + i * numel);
    });
  });
}

void ShardSet::gather_y(std::span<const std::int64_t> ids, std::span<std::int64_t> out) const {
  check_ids(ids, ids.size(), out.size());
  const bool wide = first().y->dtype == DType::i64;
  guarded([&, this] {
    for_each_row(ids, [&](std::size_t i, const Shard& shard, std::size_t row) {
      if (wide) {
        std::memcpy(&out[i], shard.y + row * sizeof(std::int64_t), sizeof(std::int64_t));
      } else {
        std::int32_t label = 0;
        std::memcpy(&label, shard.y + row * sizeof label, sizeof label);
        out[i] = label;
      }
    });
  });
  check_labels(ids, out);
}

void ShardSet::check_labels(std::span<const std::int64_t> ids, std::span<const std::int64_t> labels) const {
  const auto bad = std::find_if_not(labels.begin(), labels.end(), [&](auto label) { return labels_.contains(label); });
  if (bad == labels.end()) return;
  for_each_row(ids.subspan(static_cast<std::size_t>(bad - labels.begin()), 1), [this](std::size_t, const Shard& shard,
                                                                                      std::size_t row) {
    throw DataError(
        shard.info.path.string() + ": dataset 'y' example " + std::to_string(row) + " has a label out of range",
        "outside [0, " + std::to_string(labels_.num_classes) + ")", "correct the source and import it again");
  });
}

void ShardSet::prefetch(std::span<const std::int64_t> ids) const {
  check_ids(ids, 0, 0);
  if (seems_cached(ids)) return;
  request(ids, &Shard::x, static_cast<std::size_t>(example_numel_) * item_size(stored_dtype()));
  request(ids, &Shard::y, item_size(first().y->dtype));
}

// Asking for pages that are there costs as much as converting a small row, so a few examples are tried first. (mincore
// would answer for all, but says "yes" always to a process that may not write the file.)
bool ShardSet::seems_cached(std::span<const std::int64_t> ids) const {
  constexpr std::size_t k_tries = 16;
  const std::size_t row_bytes = static_cast<std::size_t>(example_numel_) * item_size(stored_dtype());
  bool cached = true;
  const std::size_t stride = std::max<std::size_t>(1, ids.size() / k_tries);
  for (std::size_t i = 0; i < ids.size() && cached; i += stride) {
    for_each_row(ids.subspan(i, 1), [&](std::size_t, const Shard& shard, std::size_t row) {
      std::byte byte{};
      iovec where{&byte, 1};
      const auto offset = static_cast<off_t>(shard.info.x->offset + row * row_bytes + row_bytes / 2);
      cached = ::preadv2(shard.fd.get(), &where, 1, offset, RWF_NOWAIT) == 1;
    });
  }
  return cached;
}

void ShardSet::request(std::span<const std::int64_t> ids, const std::byte* Shard::*array, std::size_t row_bytes) const {
  static const auto k_page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  const auto flush = [&] {
    if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
  };
  for_each_row(ids, [&](std::size_t, const Shard& shard, std::size_t row) {
    const auto first_byte = reinterpret_cast<std::uintptr_t>(shard.*array + row * row_bytes);
    const std::uintptr_t row_begin = first_byte / k_page * k_page;
    const std::uintptr_t row_end = first_byte + row_bytes;
    if (row_begin > end || row_begin < begin) {  // does not touch the pages collected so far
      flush();
      begin = row_begin;
      end = row_end;
    }
    end = std::max(end, row_end);
  });
  flush();
}

void ShardSet::check_unchanged() const {
  for (const Shard& shard : shards_) io::check_unchanged(shard.info.path, shard.fd.get(), shard.info.identity);
}

}  // namespace ripieno::io
