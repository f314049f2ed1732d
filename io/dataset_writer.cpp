#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/io/dataset_writer.hpp>
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

void check_spec(const DatasetSpec& spec) {
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
  struct Pending {
    fs::path temporary;
    fs::path final;
    ManifestEntry entry;
  };

  fs::path folder;
  DatasetSpec spec;
  std::size_t row_bytes = 0;
  std::int64_t appended = 0;
  std::unique_ptr<ShardWriter> shard;
  std::vector<Pending> pending;
  bool finished = false;

  [[nodiscard]] fs::path manifest_path() const { return folder / (spec.name + ".json"); }

  void refuse_existing_output() const {
    std::vector<fs::path> outputs{manifest_path()};
    for (std::int64_t i = 0; i < spec.num_shards; ++i) outputs.push_back(folder / shard_file_name(spec, i));
    for (const fs::path& output : outputs) {
      if (!fs::exists(fs::symlink_status(output))) continue;
      throw DataError(output.string() + " exists already", "an import never overwrites",
                      "choose another output folder, or remove it first");
    }
  }

  void warn_of_leftovers() const {
    const std::string prefix = std::string(".").append(spec.name).append("-");
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(prefix) && name.ends_with(".tmp")) {
        log::warning(entry.path().string() +
                     " is left over from an import that was interrupted, or still runs; remove " +
                     "it in the first case");
      }
    }
  }

  void open_next_shard() {
    const auto index = static_cast<std::int64_t>(pending.size());
    const std::int64_t floor = spec.num_examples / spec.num_shards;
    const std::int64_t larger = spec.num_examples % spec.num_shards;  // so many shards hold one more
    const ShardPlace place{.index = index,
                           .example_offset = index * floor + std::min(index, larger),
                           .num_examples = floor + (index < larger ? 1 : 0)};
    const std::string name = shard_file_name(spec, index);
    pending.push_back({temporary_name(folder / name), folder / name, {}});
    shard = std::make_unique<ShardWriter>(pending.back().temporary, spec, place);
  }

  void close_shard() {
    Pending& done = pending.back();
    done.entry = shard->close();
    done.entry.path = done.final.filename().string();
    shard.reset();
    for (std::size_t i = 0; i + 1 < pending.size(); ++i) {
      if (pending[i].entry.content_sha256 != done.entry.content_sha256) continue;
      throw DataError("shards " + pending[i].entry.path + " and " + done.entry.path + " hold the same examples",
                      "the source repeats itself, and no reader accepts an example twice", "remove the repetition");
    }
  }

  void check_values(std::span<const std::byte> x, std::span<const std::int64_t> y) const {
    const auto example = [&](std::int64_t index) { return "example " + std::to_string(appended + index); };
    if (is_floating(spec.dtype)) {
      if (const auto at = find_non_finite(x, spec.dtype)) {
        const auto row = static_cast<std::int64_t>(row_bytes / item_size(spec.dtype));
        throw DataError(example(*at / row) + " is not finite", "NaN or infinity", "correct the source");
      }
    }
    if (const auto at = find_outside(std::as_bytes(y), DType::i64, {spec.num_classes, std::nullopt})) {
      if (spec.num_classes == 0) return;
      throw DataError(example(*at) + " has a label out of range",
                      "outside [0, " + std::to_string(spec.num_classes) + ")",
                      "correct the source, or the number of classes");
    }
  }

  void remove_temporaries() noexcept {
    shard.reset();
    std::error_code ignored;
    for (const Pending& file : pending) fs::remove(file.temporary, ignored);
  }
};

DatasetWriter::DatasetWriter(fs::path folder, DatasetSpec spec) : state_(std::make_unique<State>()) {
  check_spec(spec);
  if (spec.dataset_name.empty()) spec.dataset_name = spec.name;
  if (spec.dataset_id.empty()) spec.dataset_id = random_uuid();
  if (!spec.created) spec.created = now_utc();
  state_->row_bytes = static_cast<std::size_t>(*count_elements(spec.example_shape)) * item_size(spec.dtype);
  state_->folder = std::move(folder);
  state_->spec = std::move(spec);
  std::error_code error;
  fs::create_directories(state_->folder, error);
  if (error) throw DataError("cannot create " + state_->folder.string(), error.message());
  state_->refuse_existing_output();
  state_->warn_of_leftovers();
}

DatasetWriter::~DatasetWriter() {
  if (!state_->finished) state_->remove_temporaries();
}

void DatasetWriter::append(std::span<const std::byte> x, std::span<const std::int64_t> y) {
  State& state = *state_;
  if (x.size() != y.size() * state.row_bytes) {
    throw UsageError(std::to_string(x.size()) + " bytes of x for " + std::to_string(y.size()) + " labels",
                     std::to_string(state.row_bytes) + " bytes an example are expected");
  }
  if (std::cmp_greater(y.size(), state.spec.num_examples - state.appended)) {
    throw UsageError("more examples than the dataset was announced with", std::to_string(state.spec.num_examples));
  }
  if (state.spec.check_values) state.check_values(x, y);
  while (!y.empty()) {
    if (!state.shard) state.open_next_shard();
    const std::size_t rows = std::min(y.size(), static_cast<std::size_t>(state.shard->remaining()));
    state.shard->append(x.first(rows * state.row_bytes), y.first(rows));
    state.appended += static_cast<std::int64_t>(rows);
    if (state.shard->remaining() == 0) state.close_shard();
    x = x.subspan(rows * state.row_bytes);
    y = y.subspan(rows);
  }
}

fs::path DatasetWriter::finish() {
  State& state = *state_;
  if (state.appended != state.spec.num_examples) {
    throw UsageError("the dataset is not complete", std::to_string(state.appended) + " of " +
                                                        std::to_string(state.spec.num_examples) + " examples came");
  }
  Manifest manifest{.path = state.manifest_path(),
                    .dataset_name = state.spec.dataset_name,
                    .dataset_id = state.spec.dataset_id,
                    .split = state.spec.split,
                    .privacy_unit = state.spec.privacy_unit,
                    .num_examples = state.spec.num_examples,
                    .shards = {}};
  for (const State::Pending& file : state.pending) {
    publish(file.temporary, file.final);
    manifest.shards.push_back(file.entry);
  }
  sync_to_disk(state.folder);
  write_manifest(manifest);
  state.finished = true;
  return manifest.path;
}

fs::path write_dataset(const fs::path& folder, DatasetSpec spec, std::span<const std::byte> x,
                       std::span<const std::int64_t> y) {
  spec.num_examples = static_cast<std::int64_t>(y.size());
  DatasetWriter writer(folder, std::move(spec));
  writer.append(x, y);
  return writer.finish();
}

}  // namespace ripieno::io
