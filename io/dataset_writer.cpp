#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/dataset_writer.hpp>
#include <ripieno/io/isolated_inspection.hpp>
#include <ripieno/io/manifest.hpp>
#include <ripieno/io/shard_writer_internal.hpp>
#include <ripieno/io/uuid.hpp>
#include <ripieno/io/value_checks.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t k_max_shards = 99999;  // five digits in a file name

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

std::string five_digits(std::int64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
}

std::string shard_file_name(const DatasetSpec& spec, std::int64_t index) {
  return spec.name + "-" + five_digits(index) + "-of-" + five_digits(spec.num_shards) + ".h5";
}

// ".NAME-00003-of-00016.h5.UUID.tmp" or ".NAME.json.UUID.tmp": a shard or the manifest of this dataset, not whole.
bool is_temporary_of(const DatasetSpec& spec, const std::string& name) {
  constexpr std::size_t k_uuid_length = 36;
  const std::string manifest = std::string(".").append(spec.name).append(".json.");
  if (name.starts_with(manifest) && name.size() == manifest.size() + k_uuid_length + 4) return name.ends_with(".tmp");
  const std::string of = "-of-" + five_digits(spec.num_shards) + ".h5.";
  const std::string prefix = std::string(".").append(spec.name).append("-");
  return name.starts_with(prefix) && name.ends_with(".tmp") && name.find(of) == prefix.size() + 5;
}

void check_types(const DatasetSpec& spec) {
  if (spec.dtype == DType::u32 || spec.dtype == DType::u64) {
    throw UsageError("examples of type " + std::string(dtype_name(spec.dtype)), "u8, i8, f16, f32, i32 or i64");
  }
  if (spec.label_dtype != DType::i32 && spec.label_dtype != DType::i64 && spec.label_dtype != DType::f32) {
    throw UsageError("labels of type " + std::string(dtype_name(spec.label_dtype)), "i32, i64 or f32");
  }
  if (spec.sequences && !spec.example_shape.empty()) throw UsageError("sequences of shape", "their length varies");
  if (!spec.labels && !spec.sequences) throw UsageError("a dataset without labels", "only sequences may have none");
  const auto label_elements = count_elements(spec.label_shape);
  if (!label_elements || *label_elements < 1) throw UsageError("a label of shape " + format_shape(spec.label_shape));
}

void check_spec(const DatasetSpec& spec) {
  check_types(spec);
  if (spec.name.empty() || spec.name.find('/') != std::string::npos || spec.name.front() == '.') {
    throw UsageError("'" + spec.name + "' is no name for a dataset", "it becomes part of file names");
  }
  if (spec.num_shards < 1 || spec.num_shards > k_max_shards || spec.num_shards > spec.num_examples) {
    throw UsageError("cannot cut " + std::to_string(spec.num_examples) + " examples into " +
                         std::to_string(spec.num_shards) + " shards",
                     "at least one shard, and one example in each");
  }
  const auto elements = count_elements(spec.example_shape);
  if (!elements || *elements < 1) throw UsageError("an example of shape " + format_shape(spec.example_shape));
  const Normalisation& norm = spec.normalisation;
  const bool positive =
      std::all_of(norm.std.begin(), norm.std.end(), [](float s) { return std::isfinite(s) && s > 0; });
  const std::size_t channels = norm.mean.size();
  const bool fits = channels <= 1 || (!spec.example_shape.empty() && std::cmp_equal(spec.example_shape[0], channels));
  if (norm.std.size() != channels || !positive || !fits || !std::isfinite(norm.scale)) {
    throw UsageError("an unusable normalisation",
                     "finite scale; mean and std of one entry or one per channel; std > 0");
  }
  if (spec.num_classes < 0 ||
      (!spec.class_names.empty() && std::cmp_not_equal(spec.class_names.size(), spec.num_classes))) {
    throw UsageError(std::to_string(spec.class_names.size()) + " class names for " + std::to_string(spec.num_classes) +
                     " classes");
  }
}

}  // namespace

struct DatasetWriter::State {
  fs::path folder;
  DatasetSpec spec;
  std::size_t row_bytes = 0;
  std::size_t label_bytes = 0;
  std::int64_t appended = 0;
  std::unique_ptr<ShardWriter> shard;
  fs::path temporary;                // of `shard`
  std::vector<ManifestEntry> whole;  // shards in place, this writer's and those of one before it
  std::size_t adopted = 0;           // so many of them were there before
  bool finished = false;

  [[nodiscard]] fs::path manifest_path() const { return folder / (spec.name + ".json"); }
  [[nodiscard]] fs::path shard_path(std::int64_t index) const { return folder / shard_file_name(spec, index); }

  [[nodiscard]] ShardPlace place(std::int64_t index) const {
    const std::int64_t floor = spec.num_examples / spec.num_shards;
    const std::int64_t larger = spec.num_examples % spec.num_shards;  // so many shards hold one more
    return {.index = index,
            .example_offset = index * floor + std::min(index, larger),
            .num_examples = floor + (index < larger ? 1 : 0)};
  }

  static bool exists(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

  [[noreturn]] static void refuse(const fs::path& output) {
    throw DataError(output.string() + " exists already", "an import never overwrites unless it is forced to",
                    "choose another output folder, or give --force");
  }

  void refuse_existing_output() const {
    if (exists(manifest_path())) refuse(manifest_path());
    for (auto i = static_cast<std::int64_t>(adopted); i < spec.num_shards; ++i) {
      if (exists(shard_path(i))) refuse(shard_path(i));
    }
  }

  // Of any number of shards. Without its manifest a dataset is gone, so that goes first.
  void remove_existing_output() const {
    fs::remove(manifest_path());
    sync_to_disk(folder);
    const std::string prefix = spec.name + "-";
    std::vector<fs::path> shards;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(prefix) && name.ends_with(".h5") && name.find("-of-") == prefix.size() + 5) {
        shards.push_back(entry.path());
      }
    }
    for (const fs::path& path : shards) fs::remove(path);
  }

  // A file that nobody holds a lock on was being written by a process that has ended.
  void remove_leftovers() const {
    std::vector<fs::path> leftovers;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (is_temporary_of(spec, entry.path().filename().string())) leftovers.push_back(entry.path());
    }
    for (const fs::path& path : leftovers) {
      const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (fd.get() >= 0 && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        throw DataError("another process writes " + manifest_path().string(), path.string() + " is in its hands",
                        "wait for it to end, or stop it");
      }
      fs::remove(path);
    }
  }

  // The shards from 0 on that an earlier writer of the same source put in place.
  void adopt_whole_shards() {
    if (exists(manifest_path())) refuse(manifest_path());
    std::vector<fs::path> paths;
    while (std::cmp_less(paths.size(), spec.num_shards) &&
           exists(shard_path(static_cast<std::int64_t>(paths.size())))) {
      paths.push_back(shard_path(static_cast<std::int64_t>(paths.size())));
    }
    if (paths.empty()) return;
    for (const ShardInfo& found : inspect_isolated(paths)) adopt(found);
    adopted = whole.size();
    const ManifestEntry& last = whole.back();
    appended = *last.offset + last.num_examples;
  }

  void adopt(const ShardInfo& found) {
    const ShardPlace expected = place(static_cast<std::int64_t>(whole.size()));
    if (whole.empty()) {
      spec.dataset_id = found.dataset_id;
      spec.created = found.created;
    }
    const bool ours = !spec.import_source.empty() && found.import_source == spec.import_source &&
                      found.dataset_id == spec.dataset_id && found.shard_index == expected.index &&
                      found.example_offset == expected.example_offset && found.num_examples == expected.num_examples;
    if (!ours) refuse(found.path);
    whole.push_back({.path = found.path.filename().string(),
                     .num_examples = found.num_examples,
                     .offset = found.example_offset,
                     .bytes = found.identity.bytes,
                     .shard_uuid = found.shard_uuid,
                     .content_sha256 = found.content_sha256});
  }

  void open_next_shard() {
    const auto index = static_cast<std::int64_t>(whole.size());
    temporary = temporary_name(shard_path(index));
    shard = std::make_unique<ShardWriter>(temporary, spec, place(index));
  }

  void close_shard() {
    ManifestEntry entry = shard->close();
    entry.path = shard_path(static_cast<std::int64_t>(whole.size())).filename().string();
    for (const ManifestEntry& other : whole) {
      if (other.content_sha256 != entry.content_sha256) continue;
      throw DataError("shards " + other.path + " and " + entry.path + " hold the same examples",
                      "the source repeats itself, and no reader accepts an example twice", "remove the repetition");
    }
    publish(temporary, folder / entry.path);
    shard.reset();
    whole.push_back(std::move(entry));
    sync_to_disk(folder);
  }

  [[nodiscard]] std::string example(std::int64_t index) const { return "example " + std::to_string(appended + index); }

  void check_finite(std::span<const std::byte> bytes, DType dtype, std::size_t bytes_an_example) const {
    if (!is_floating(dtype)) return;
    if (const auto at = find_non_finite(bytes, dtype)) {
      throw DataError(example(*at / static_cast<std::int64_t>(bytes_an_example / item_size(dtype))) + " is not finite",
                      "NaN or infinity", "correct the source");
    }
  }

  void check_values(const Examples& examples) const {
    if (!spec.sequences) check_finite(examples.x, spec.dtype, row_bytes);
    check_finite(examples.y, spec.label_dtype, label_bytes);
    if (spec.num_classes == 0 || is_floating(spec.label_dtype)) return;
    if (const auto at = find_outside(examples.y, spec.label_dtype, {spec.num_classes, spec.ignore_index})) {
      const auto labels = static_cast<std::int64_t>(label_bytes / item_size(spec.label_dtype));
      throw DataError(example(*at / labels) + " has a label out of range",
                      "outside [0, " + std::to_string(spec.num_classes) + ")",
                      "correct the source, or the number of classes");
    }
  }

  void check_sizes(const Examples& examples) const {
    const auto count = static_cast<std::size_t>(examples.count);
    std::size_t x_bytes = count * row_bytes;
    if (spec.sequences) {
      std::int64_t values = 0;
      for (const std::int64_t length : examples.lengths) values += length;
      x_bytes = static_cast<std::size_t>(values) * item_size(spec.dtype);
    }
    if (examples.x.size() != x_bytes || examples.lengths.size() != (spec.sequences ? count : 0) ||
        examples.y.size() != (spec.labels ? count * label_bytes : 0) || examples.ids.size() != (spec.ids ? count : 0)) {
      throw UsageError(std::to_string(examples.count) + " examples of other sizes than the dataset was announced with",
                       std::to_string(row_bytes) + " bytes of x and " + std::to_string(label_bytes) +
                           " of y an example are expected");
    }
    if (examples.count > spec.num_examples - appended) {
      throw UsageError("more examples than the dataset was announced with", std::to_string(spec.num_examples));
    }
  }

  /// The first `count` of the examples; the rest stays in `examples`.
  Examples take(Examples& examples, std::int64_t count) const {
    const auto n = static_cast<std::size_t>(count);
    Examples head{.count = count, .x = {}};
    std::size_t x_bytes = n * row_bytes;
    if (spec.sequences) {
      head.lengths = examples.lengths.first(n);
      x_bytes = 0;
      for (const std::int64_t length : head.lengths)
        x_bytes += static_cast<std::size_t>(length) * item_size(spec.dtype);
      examples.lengths = examples.lengths.subspan(n);
    }
    const auto cut = [](auto& span, std::size_t size) {
      const auto first = span.first(size);
      span = span.subspan(size);
      return first;
    };
    head.x = cut(examples.x, x_bytes);
    if (spec.labels) head.y = cut(examples.y, n * label_bytes);
    if (spec.ids) head.ids = cut(examples.ids, n);
    examples.count -= count;
    return head;
  }

  void abandon() noexcept {
    std::error_code ignored;
    if (shard) {
      shard.reset();
      fs::remove(temporary, ignored);
    }
    if (!spec.import_source.empty()) return;
    for (std::size_t i = adopted; i < whole.size(); ++i) fs::remove(folder / whole[i].path, ignored);
  }
};

DatasetWriter::DatasetWriter(fs::path folder, DatasetSpec spec, Existing existing) : state_(std::make_unique<State>()) {
  check_spec(spec);
  if (spec.dataset_name.empty()) spec.dataset_name = spec.name;
  if (spec.dataset_id.empty()) spec.dataset_id = random_uuid();
  if (!spec.created) spec.created = now_utc();
  State& state = *state_;
  if (!spec.sequences) {
    state.row_bytes = static_cast<std::size_t>(*count_elements(spec.example_shape)) * item_size(spec.dtype);
  }
  state.label_bytes = static_cast<std::size_t>(*count_elements(spec.label_shape)) * item_size(spec.label_dtype);
  state.folder = std::move(folder);
  state.spec = std::move(spec);
  std::error_code error;
  fs::create_directories(state.folder, error);
  if (error) throw DataError("cannot create " + state.folder.string(), error.message());
  state.remove_leftovers();
  if (existing == Existing::replace) state.remove_existing_output();
  if (existing == Existing::resume) state.adopt_whole_shards();
  state.refuse_existing_output();
}

DatasetWriter::~DatasetWriter() {
  if (!state_->finished) state_->abandon();
}

std::int64_t DatasetWriter::next_example() const noexcept { return state_->appended; }

void DatasetWriter::append(const Examples& examples) {
  State& state = *state_;
  state.check_sizes(examples);
  if (state.spec.check_values) state.check_values(examples);
  Examples rest = examples;
  while (rest.count > 0) {
    if (!state.shard) state.open_next_shard();
    const std::int64_t count = std::min(rest.count, state.shard->remaining());
    state.shard->append(state.take(rest, count));
    state.appended += count;
    if (state.shard->remaining() == 0) state.close_shard();
  }
}

void DatasetWriter::append(std::span<const std::byte> x, std::span<const std::int64_t> y) {
  append({.count = static_cast<std::int64_t>(y.size()), .x = x, .y = std::as_bytes(y)});
}

fs::path DatasetWriter::finish() {
  State& state = *state_;
  if (state.appended != state.spec.num_examples) {
    throw UsageError("the dataset is not complete", std::to_string(state.appended) + " of " +
                                                        std::to_string(state.spec.num_examples) + " examples came");
  }
  write_manifest({.path = state.manifest_path(),
                  .dataset_name = state.spec.dataset_name,
                  .dataset_id = state.spec.dataset_id,
                  .split = state.spec.split,
                  .privacy_unit = state.spec.privacy_unit,
                  .num_examples = state.spec.num_examples,
                  .shards = state.whole});
  state.finished = true;
  return state.manifest_path();
}

fs::path write_dataset(const fs::path& folder, DatasetSpec spec, std::span<const std::byte> x,
                       std::span<const std::int64_t> y) {
  spec.num_examples = static_cast<std::int64_t>(y.size());
  DatasetWriter writer(folder, std::move(spec));
  writer.append(x, y);
  return writer.finish();
}

}  // namespace ripieno::io
