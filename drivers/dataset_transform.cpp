// ripieno-dataset reshard, split and features: datasets out of datasets.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/cli/value.hpp>
#include <ripieno/framework/models/feature_kernel.hpp>
#include <ripieno/io/import_shards.hpp>
#include <ripieno/io/shard_set.hpp>
#include <ripieno/io/verify.hpp>
#include <thread>
#include <utility>

#include "dataset_commands.hpp"
#include "dataset_progress.hpp"

namespace ripieno::dataset {
namespace {

namespace fs = std::filesystem;

/// The one dataset that `paths` name.
std::vector<io::ShardInfo> find_one(const std::vector<std::string>& paths) {
  std::vector<io::FoundDataset> found = io::find_datasets(std::vector<fs::path>(paths.begin(), paths.end()));
  if (found.size() != 1) {
    throw UsageError(std::to_string(found.size()) + " datasets are named", "one is expected", "name its manifest");
  }
  return std::move(found.front().shards);
}

/// Output that stands for the same records: it keeps the dataset's id, by which ledgers know them.
io::ImportTarget same_records(const std::vector<io::ShardInfo>& shards) {
  io::ImportTarget target;
  target.spec.name = shards.front().split.empty() ? "dataset" : shards.front().split;
  target.spec.split = shards.front().split;
  target.spec.dataset_id = shards.front().dataset_id;
  return target;
}

/// Writing over a dataset would remove it before it is read.
void refuse_in_place(const std::vector<io::ShardInfo>& shards, const io::ImportTarget& target) {
  std::error_code ignored;
  for (const io::ShardInfo& shard : shards) {
    const fs::path folder = shard.path.has_parent_path() ? shard.path.parent_path() : ".";
    if (!fs::equivalent(folder, target.out, ignored)) continue;
    if (!shard.path.filename().string().starts_with(target.spec.name + "-")) continue;
    throw UsageError("the output would replace its own source " + shard.path.string(), {},
                     "choose another --out or --name");
  }
}

struct Part {
  std::string name;
  double fraction = 0;
};

/// "train=0.9"
Part parse_part(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) throw UsageError("--part " + text + " is not NAME=FRACTION");
  Part part{.name = text.substr(0, equals)};
  cli::read_value("--part", text.substr(equals + 1), part.fraction);
  if (!(part.fraction > 0) || !(part.fraction <= 1))
    throw UsageError("--part " + text, "a fraction in (0, 1] is expected");
  return part;
}

/// Examples of each part: all of them where the fractions sum to one, the last part taking what rounding leaves.
std::vector<std::int64_t> part_counts(const std::vector<Part>& parts, std::int64_t total) {
  double sum = 0;
  std::vector<std::int64_t> counts;
  for (const Part& part : parts) {
    sum += part.fraction;
    counts.push_back(static_cast<std::int64_t>(std::llround(part.fraction * static_cast<double>(total))));
  }
  constexpr double k_slack = 1e-9;
  if (std::abs(sum - 1) > k_slack) throw UsageError("the parts do not sum to 1", "every example goes to one of them");
  counts.back() = total - std::accumulate(counts.begin(), counts.end() - 1, std::int64_t{0});
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 1) throw UsageError("part " + parts[i].name + " would be empty");
  }
  return counts;
}

/// A public feature map (framework/models/feature_kernel.hpp) of each image of a dataset.
class FeatureSource final : public io::ExampleSource {
 public:
  FeatureSource(const std::vector<io::ShardInfo>& shards, const io::ShardSet& images, const std::string& map)
      : labels_(io::open_shards(shards)), images_(images), map_(map) {
    const auto [height, width] = image_sides(images, map);
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
      kernels_.push_back(make_feature_kernel(map, height, width));
    }
  }

  void describe(io::DatasetSpec& spec) const override {
    labels_->describe(spec);
    spec.dtype = io::DType::f32;
    spec.example_shape = {static_cast<std::int64_t>(kernels_.front()->feature_size())};
    spec.normalisation = {};
    spec.vocab_size = 0;
  }
  [[nodiscard]] std::vector<std::string> fingerprint() const override {
    std::vector<std::string> texts = labels_->fingerprint();
    texts.push_back(map_);
    return texts;
  }

  void skip(std::int64_t count) override {
    labels_->skip(count);
    next_ += count;
  }
  void read(std::int64_t count, io::ExampleBlock& block) override {
    const std::int64_t before = block.count;
    std::vector<std::byte> x = std::move(block.x);  // the raw image is not wanted
    labels_->read(count, block);
    block.x = std::move(x);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(block.count - before));
    std::iota(ids.begin(), ids.end(), next_);
    next_ += block.count - before;
    std::vector<float> images(ids.size() * kernels_.front()->image_size());
    images_.gather_x(ids, images);
    std::vector<float> features(ids.size() * kernels_.front()->feature_size());
    map_all(images, features);
    const auto bytes = std::as_bytes(std::span(features));
    block.x.insert(block.x.end(), bytes.begin(), bytes.end());
  }

 private:
  using Sides = std::pair<std::size_t, std::size_t>;

  static Sides image_sides(const io::ShardSet& images, const std::string& map) {
    const auto shape = images.example_shape();
    if (shape.size() != 2 && !(shape.size() == 3 && shape[0] == 1)) {
      throw DataError(map + " cannot be made of examples of shape " + io::format_shape({shape.begin(), shape.end()}),
                      "images of one channel are expected");
    }
    return {static_cast<std::size_t>(shape[shape.size() - 2]), static_cast<std::size_t>(shape.back())};
  }

  // Image by image, dealt out to one thread a core.
  void map_all(std::span<const float> images, std::span<float> features) {
    const std::size_t image_size = kernels_.front()->image_size();
    const std::size_t feature_size = kernels_.front()->feature_size();
    const std::size_t count = images.size() / image_size;
    std::vector<std::jthread> threads;
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      threads.emplace_back([=, this] {
        for (std::size_t i = k; i < count; i += kernels_.size()) {
          (*kernels_[k])(images.subspan(i * image_size, image_size), features.subspan(i * feature_size, feature_size));
        }
      });
    }
  }

  std::unique_ptr<io::ExampleSource> labels_;
  const io::ShardSet& images_;
  std::string map_;
  std::vector<std::unique_ptr<FeatureKernel>> kernels_;  // one a thread
  std::int64_t next_ = 0;
};

/// Where the same records go that the command line sent to `output`. UsageError for the shards' own place.
io::ImportTarget same_records_at(const std::vector<io::ShardInfo>& shards, const io::ImportTarget& output) {
  io::ImportTarget target = same_records(shards);
  target.out = output.out;
  target.force = output.force;
  target.spec.num_shards = output.spec.num_shards;
  if (!output.spec.name.empty()) target.spec.name = output.spec.name;
  refuse_in_place(shards, target);
  return target;
}

}  // namespace

int run_reshard(std::span<const std::string> arguments) {
  std::vector<std::string> paths;
  io::ImportTarget output;
  output.spec.name.clear();
  cli::Options options("ripieno-dataset reshard",
                       "Writes the same examples, in the same order and under the same dataset id, in another number "
                       "of files.",
                       dependencies());
  options.positional("PATH", paths, "a manifest, a folder, or all shards of a set", 1);
  add_output(options.group("output"), output);
  if (!options.parse(arguments)) return 0;
  const std::vector<io::ShardInfo> shards = find_one(paths);
  const io::ImportTarget target = same_records_at(shards, output);
  write_output(io::open_shards(shards), target, "resharding");
  return 0;
}

int run_split(std::span<const std::string> arguments) {
  std::vector<std::string> paths, texts;
  std::uint64_t seed = 0;
  io::ImportTarget output;
  cli::Options options("ripieno-dataset split",
                       "Deals the examples out at random, each part a dataset with an id of its own. A part of private "
                       "data is private.",
                       dependencies());
  options.positional("PATH", paths, "a manifest, a folder, or all shards of a set", 1);
  options.group("split")
      .add("part", texts, "NAME=FRACTION", "a part, written to NAME.json; the fractions sum to 1")
      .required()
      .add("seed", seed, "N", "of the deal; no secret");
  options.group("output")
      .add("out", output.out, "DIR", "folder to write to")
      .required()
      .add("shards", output.spec.num_shards, "N", "files that each part is cut into")
      .add("force", output.force, "", "replace datasets of those names; without, nothing is overwritten");
  options.example("ripieno-dataset split data/train.json --part train=0.9 --part valid=0.1 --out data/parts");
  if (!options.parse(arguments)) return 0;
  std::vector<Part> parts;
  for (const std::string& text : texts) parts.push_back(parse_part(text));
  const std::vector<io::ShardInfo> shards = find_one(paths);
  std::int64_t total = 0;
  for (const io::ShardInfo& shard : shards) total += shard.num_examples;
  const std::vector<std::int64_t> counts = part_counts(parts, total);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    io::ImportTarget target = output;
    target.spec.name = parts[i].name;
    target.spec.split = parts[i].name;
    target.spec.provenance = "part of dataset " + shards.front().dataset_id;
    refuse_in_place(shards, target);
    write_output(io::open_part(shards, counts, i, seed), target, "writing " + parts[i].name);
  }
  return 0;
}

int run_features(std::span<const std::string> arguments) {
  fs::path path;
  std::string map = feature_kernel_names().front();
  io::ImportTarget output;
  output.spec.name.clear();
  cli::Options options("ripieno-dataset features",
                       "Applies a public feature map to every example once, under the same dataset id.",
                       dependencies());
  cli::Group& group = options.group("features");
  group.add("data", path, "PATH", "manifest of the images").required();
  group.add_choice("map", map, feature_kernel_names(), "the feature map");
  options.example("ripieno-dataset features --data data/train.json --map scattering --out data/scattering");
  add_output(options.group("output"), output);
  if (!options.parse(arguments)) return 0;
  const io::ShardSet images = io::ShardSet::open(path);
  std::vector<io::ShardInfo> shards;
  for (std::int64_t i = 0; i < images.num_shards(); ++i) shards.push_back(images.shard(i));
  const io::ImportTarget target = same_records_at(shards, output);
  write_output(std::make_unique<FeatureSource>(shards, images, map), target, "mapping");
  return 0;
}

}  // namespace ripieno::dataset
