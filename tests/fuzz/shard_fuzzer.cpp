// Edits of valid shards and manifests (edits.hpp) through all that a training run does with a dataset: open, verify,
// read every example by both ways of access. Whatever the file, the answer is right data or an Error: no crash, no
// report of the sanitizer, no hang, no other exception.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/io/dataset_writer.hpp>
#include <ripieno/io/manifest.hpp>
#include <ripieno/io/shard_content.hpp>
#include <ripieno/io/shard_set.hpp>
#include <stdexcept>

#include "edits.hpp"

namespace ripieno::fuzz {
namespace {

namespace fs = std::filesystem;

/// A valid file that edits are made to.
struct Base {
  std::string bytes;
  std::size_t metadata_bytes = 0;  ///< where edits mostly go
  bool is_manifest = false;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// The valid files, made once in a folder of this process.
class Bases {
 public:
  Bases() {
    std::string name = (fs::temp_directory_path() / "ripieno-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    folder_ = name;
    log::set_level(log::Level::off);
    write_images();
    write_sequences();
    add_shard("images/train-00000-of-00001.h5");
    add_shard("text/train-00000-of-00001.h5");
    const std::string manifest = read_file(folder_ / "images/train.json");
    all_.push_back({manifest, manifest.size(), true});
    const std::string text_manifest = read_file(folder_ / "text/train.json");
    all_.push_back({text_manifest, text_manifest.size(), true});
  }
  ~Bases() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  [[nodiscard]] const Base& at(std::uint8_t choice) const { return all_[choice % all_.size()]; }
  [[nodiscard]] const fs::path& folder() const { return folder_; }
  /// The folder of the dataset that this manifest or shard belongs to.
  [[nodiscard]] fs::path dataset(std::uint8_t choice) const {
    return folder_ / (choice % all_.size() % 2 == 0 ? "images" : "text");
  }

 private:
  static constexpr std::int64_t k_examples = 5;

  void write_images() {
    io::DatasetSpec spec;
    spec.name = "train";
    spec.example_shape = {2, 3};
    spec.num_classes = 3;
    spec.class_names = {"a", "b", "c"};
    spec.normalisation = {.scale = 0.5F, .mean = {1, 2}, .std = {1, 2}};
    spec.ids = true;
    spec.num_examples = k_examples;
    std::vector<std::uint8_t> x(k_examples * 6);
    std::iota(x.begin(), x.end(), std::uint8_t{1});
    const std::vector<std::int64_t> y{0, 1, 2, 1, 0};
    const std::vector<std::uint64_t> ids{11, 12, 13, 14, 15};
    io::DatasetWriter writer(folder_ / "images", spec);
    writer.append({.count = k_examples,
                   .x = std::as_bytes(std::span(x)),
                   .lengths = {},
                   .y = std::as_bytes(std::span(y)),
                   .ids = ids});
    writer.finish();
  }

  void write_sequences() {
    io::DatasetSpec spec;
    spec.name = "train";
    spec.sequences = true;
    spec.labels = false;
    spec.vocab_size = 257;
    spec.pad_id = 256;
    spec.num_examples = k_examples;
    const std::string x = "abcdefghij";
    const std::vector<std::int64_t> lengths{3, 0, 4, 1, 2};
    io::DatasetWriter writer(folder_ / "text", spec);
    writer.append({.count = k_examples, .x = std::as_bytes(std::span(x)), .lengths = lengths});
    writer.finish();
  }

  void add_shard(const char* name) {
    std::string bytes = read_file(folder_ / name);
    const io::ShardInfo info = io::inspect_shard(folder_ / name);
    std::uint64_t data = bytes.size();
    for (const io::StoredArray* array : info.arrays()) data = std::min(data, array->offset);
    all_.push_back({std::move(bytes), static_cast<std::size_t>(data), false});
  }

  fs::path folder_;
  std::vector<Base> all_;
};

const Bases& bases() {
  static const Bases all;
  return all;
}

void read_everything(const io::ShardSet& set) {
  constexpr std::int64_t k_most_examples = 64;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(std::min(set.num_examples(), k_most_examples)));
  std::iota(ids.begin(), ids.end(), 0);
  set.prefetch(ids);
  const std::vector<std::int64_t> lengths = set.lengths(ids);
  const std::int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  if (set.has_sequences()) {
    std::vector<std::int64_t> tokens(ids.size() * static_cast<std::size_t>(longest));
    set.gather_tokens(ids, longest, tokens);
  } else {
    std::vector<float> x(ids.size() * static_cast<std::size_t>(set.example_numel()));
    set.gather_x(ids, x);
  }
  if (!set.has_labels()) return;
  const std::size_t labels = ids.size() * static_cast<std::size_t>(set.label_numel());
  if (set.label_dtype() == io::DType::f32) {
    std::vector<float> targets(labels);
    set.gather_targets(ids, targets);
  } else {
    std::vector<std::int64_t> y(labels);
    set.gather_y(ids, y);
  }
}

template <class Body>
void expect_data_or_error(Body body) {
  try {
    body();
  } catch (const Error&) {  // which says what is wrong
  }
}

void run(std::uint8_t choice, std::span<const Edit> edits) {
  const Base& base = bases().at(choice);
  const std::string edited = apply_edits(base.bytes, edits);
  const fs::path folder = bases().folder() / "edited";
  fs::remove_all(folder);
  fs::copy(bases().dataset(choice), folder);
  const fs::path shard = folder / "train-00000-of-00001.h5";
  write_file(base.is_manifest ? folder / "train.json" : shard, edited);
  if (!base.is_manifest) {
    // One that says little of the shard, so that its own checks are what stands between it and the reader.
    write_file(
        folder / "train.json",
        R"({"format": "dpshard-manifest", "version": 1, "shards": [{"path": "train-00000-of-00001.h5", "num_examples": 5}]})");
    expect_data_or_error([&] {
      const std::vector<fs::path> paths{shard};
      io::verify_content(io::inspect_shards(io::read_manifest(folder / "train.json")).front());
    });
  }
  for (const io::Access access : {io::Access::mmap, io::Access::pread}) {
    expect_data_or_error([&] { read_everything(io::ShardSet::open(folder / "train.json", {.access = access})); });
  }
}

}  // namespace
}  // namespace ripieno::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> bytes(data, size);
  ripieno::fuzz::run(bytes[0], ripieno::fuzz::decode_edits(bytes.subspan(1)));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  using namespace ripieno::fuzz;
  std::mt19937 random(seed);
  std::uint8_t choice = size > 0 && random() % 16 != 0 ? data[0] : static_cast<std::uint8_t>(random() % 4);
  std::vector<Edit> edits = size > 0 ? decode_edits({data + 1, size - 1}) : std::vector<Edit>();
  mutate_edits(edits, bases().at(choice).metadata_bytes, random);
  const std::vector<std::uint8_t> bytes = encode_edits(edits);
  if (bytes.size() + 1 > most) return size;
  data[0] = choice;
  std::copy(bytes.begin(), bytes.end(), data + 1);
  return bytes.size() + 1;
}
