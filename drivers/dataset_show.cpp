// ripieno-dataset info and verify.

#include <algorithm>
#include <array>
#include <charconv>
#include <iostream>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/verify.hpp>

#include "dataset_commands.hpp"
#include "dataset_progress.hpp"

namespace ripieno::dataset {
namespace {

namespace fs = std::filesystem;

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

std::vector<std::string> companions(const io::ShardInfo& shard) {
  std::vector<std::string> texts;
  if (shard.crc32c) texts.emplace_back("a checksum of each example");
  if (shard.id) texts.emplace_back("an id of each example");
  return texts;
}

void print_dataset(const io::FoundDataset& dataset) {
  const io::ShardInfo& first = dataset.shards.front();
  std::int64_t examples = 0;
  std::int64_t bytes = 0;
  std::int64_t values = 0;
  for (const io::ShardInfo& shard : dataset.shards) {
    examples += shard.num_examples;
    bytes += shard.identity.bytes;
    if (shard.sequence_values) values += shard.sequence_values->shape.front();
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
    row("values", std::to_string(values));
  }
  if (first.vocab_size > 0) {
    row("tokens", "[0, " + std::to_string(first.vocab_size) + "), padding " + std::to_string(first.pad_id) +
                      (first.tokenizer.empty() ? "" : ", by " + first.tokenizer));
  }
  if (first.y) row("y", std::string(io::dtype_name(first.y->dtype)) + " " + io::format_shape(first.label_shape()));
  row("has", join(companions(first)));
  if (first.num_classes > 0) row("classes", std::to_string(first.num_classes));
  row("class names", join(first.class_names));
  row("created", first.created);
  row("provenance", first.provenance);
}

std::vector<fs::path> as_paths(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

}  // namespace

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

}  // namespace ripieno::dataset
