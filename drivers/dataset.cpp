// ripieno-dataset: makes, shows and checks sharded datasets.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iostream>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/hdf5_version.hpp>
#include <ripieno/io/import_idx.hpp>
#include <ripieno/io/verify.hpp>

#include <ripieno/accounting/cli/options.hpp>
#include <ripieno/accounting/cli/program.hpp>

namespace {

using namespace ripieno;
namespace fs = std::filesystem;

std::vector<std::string> dependencies() { return {"HDF5 " + io::hdf5_version()}; }

/// "importing 45 %" on a terminal, rewritten in place; nothing elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what)
      : what_(std::move(what)), shown_(::isatty(STDERR_FILENO) == 1 && log::level() <= log::Level::info) {}
  ~ProgressLine() {
    if (percent_ >= 0) std::cerr << "\r\x1b[K" << std::flush;
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(double fraction) {
    const int percent = static_cast<int>(100 * fraction);
    if (!shown_ || percent == percent_) return;
    percent_ = percent;
    std::cerr << "\r" << what_ << " " << percent << " %" << std::flush;
  }

 private:
  std::string what_;
  bool shown_;
  int percent_ = -1;
};

io::ImportProgress import_progress(ProgressLine& line) {
  return [&line](std::int64_t done, std::int64_t total) {
    line.update(static_cast<double>(done) / static_cast<double>(total));
  };
}

int run_import_fashion_mnist(std::span<const std::string> arguments) {
  io::FashionMnistImport import;
  cli::Options options("ripieno-dataset import fashion-mnist",
                       "Imports Fashion-MNIST: OUT/train.json, whose examples are private, and OUT/test.json, public.",
                       dependencies());
  cli::Group& group = options.group("import");
  group.add("from", import.from, "DIR", "folder of the four IDX files, compressed or not")
      .required()
      .add("out", import.out, "DIR", "folder to write to; nothing in it is overwritten")
      .required()
      .add("shards", import.num_shards, "N", "files that each split is cut into");
  if (!options.parse(arguments)) return 0;
  ProgressLine line("importing");
  const std::vector<fs::path> manifests = io::import_fashion_mnist(import, import_progress(line));
  for (const fs::path& manifest : manifests) log::info("wrote " + manifest.string());
  return 0;
}

int run_import_idx(std::span<const std::string> arguments) {
  io::IdxImport import;
  std::string unit = "example";
  cli::Options options("ripieno-dataset import idx", "Imports a pair of IDX files (the format of MNIST).",
                       dependencies());
  cli::Group& group = options.group("import");
  group.add("images", import.images, "FILE", "IDX file of examples: u8, i8, i32 or f32 of any shape")
      .required()
      .add("labels", import.labels, "FILE", "IDX file of one integer an example")
      .required()
      .add("out", import.out, "DIR", "folder to write to; nothing in it is overwritten")
      .required()
      .add("name", import.spec.name, "NAME", "name of the dataset and of its files")
      .required()
      .add("split", import.spec.split, "NAME", "which part of the data this is")
      .add("classes", import.spec.num_classes, "N", "number of classes; 0: one more than the largest label")
      .add("shards", import.spec.num_shards, "N", "files that the dataset is cut into")
      .add_choice("privacy-unit", unit, {"example", "user", "public"}, "what the guarantee protects; public: nothing");
  if (!options.parse(arguments)) return 0;
  import.spec.privacy_unit = io::parse_privacy_unit(unit);
  ProgressLine line("importing");
  log::info("wrote " + io::import_idx(import, import_progress(line)).string());
  return 0;
}

int run_import(std::span<const std::string> arguments) {
  const std::vector<cli::Command> commands{
      {"fashion-mnist", "the four files of Fashion-MNIST", run_import_fashion_mnist},
      {"idx", "a pair of IDX files, as of MNIST", run_import_idx}};
  return cli::dispatch("ripieno-dataset import", "Writes a dataset as sharded HDF5 files with a manifest.", commands,
                       arguments, dependencies());
}

std::string float_text(float value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string normalisation_text(const io::Normalisation& normalisation) {
  const auto list = [](const std::vector<float>& values) {
    std::vector<std::string> parts;
    for (const float value : values) parts.push_back(float_text(value));
    return join(parts);
  };
  std::string text = "x * " + float_text(normalisation.scale);
  if (normalisation.mean.empty()) return text;
  return text + ", then mean " + list(normalisation.mean) + " and std " + list(normalisation.std);
}

void print_dataset(const io::FoundDataset& dataset) {
  const io::ShardInfo& first = dataset.shards.front();
  std::int64_t examples = 0;
  std::int64_t bytes = 0;
  for (const io::ShardInfo& shard : dataset.shards) {
    examples += shard.num_examples;
    bytes += shard.identity.bytes;
  }
  const auto row = [](const std::string& key, const std::string& value) {
    if (!value.empty()) std::cout << "  " << key << std::string(15 - key.size(), ' ') << value << "\n";
  };
  std::cout << dataset.source << "\n";
  row("name", first.dataset_name);
  row("split", first.split);
  row("dataset id", first.dataset_id);
  row("privacy unit", std::string(io::privacy_unit_name(first.privacy_unit)));
  row("examples", std::to_string(examples));
  row("shards", std::to_string(dataset.shards.size()) + " of " + std::to_string(first.shard_count) + ", " +
                    std::to_string(bytes) + " bytes");
  if (first.x) {
    row("x", std::string(io::dtype_name(first.x->dtype)) + " " + io::format_shape(first.example_shape()));
    row("normalisation", normalisation_text(first.normalisation));
  } else {
    row("x", std::string(io::dtype_name(first.sequence_values->dtype)) + " sequences");
  }
  if (first.num_classes > 0) row("classes", std::to_string(first.num_classes));
  row("class names", join(first.class_names));
  row("created", first.created);
  row("provenance", first.provenance);
}

std::vector<fs::path> as_paths(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

int run_info(std::span<const std::string> arguments) {
  std::vector<std::string> paths;
  cli::Options options("ripieno-dataset info", "Shows what datasets say of themselves. Reads no example.",
                       dependencies());
  options.positional("PATH", paths, "manifests, folders or shard files", 1);
  if (!options.parse(arguments)) return 0;
  for (const io::FoundDataset& dataset : io::find_datasets(as_paths(paths))) print_dataset(dataset);
  return 0;
}

int run_verify(std::span<const std::string> arguments) {
  std::vector<std::string> paths;
  cli::Options options("ripieno-dataset verify",
                       "Reads every byte: structure, checksums, ids, duplicates, ranges. Exit code 3 on any fault.",
                       dependencies());
  options.positional("PATH", paths, "manifests, folders, or shard files: one alone, or all of a set", 1);
  if (!options.parse(arguments)) return 0;
  ProgressLine line("verifying");
  const auto verified = io::verify(as_paths(paths), [&](std::uint64_t done, std::uint64_t total) {
    line.update(static_cast<double>(done) / static_cast<double>(total));
  });
  for (const io::VerifiedDataset& dataset : verified) {
    for (const std::string& warning : dataset.warnings) log::warning(warning);
    std::cout << dataset.source << ": ok, " << dataset.num_examples << " examples in " << dataset.num_shards
              << (dataset.num_shards == 1 ? " shard\n" : " shards\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cli::run_program("ripieno-dataset", [&] {
    const std::vector<cli::Command> commands{{"import", "make a dataset", run_import},
                                             {"info", "show what a dataset says of itself", run_info},
                                             {"verify", "check every byte of a dataset", run_verify}};
    return cli::dispatch("ripieno-dataset", "Makes, shows and checks the sharded datasets that ripieno-train reads.",
                         commands, cli::arguments(argc, argv), dependencies());
  });
}
