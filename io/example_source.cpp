#include <algorithm>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/example_source.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t k_block_bytes = 4 << 20;
constexpr std::int64_t k_block_sequences = 4096;

// Everything that decides what is written, so that only the very same import goes on after an interruption.
std::string source_name(const ExampleSource& source, const DatasetSpec& spec) {
  Sha256 hash;
  const auto add = [&](const std::string& text) { hash.update(text).update("\n"); };
  for (const std::string& text : source.fingerprint()) add(text);
  add(spec.dataset_name);
  add(spec.dataset_id);
  add(spec.split);
  add(std::string(privacy_unit_name(spec.privacy_unit)));
  add(std::to_string(spec.num_shards));
  add(std::to_string(spec.num_classes));
  add(std::to_string(spec.num_examples));
  return to_hex(hash.finish());
}

}  // namespace

void ExampleBlock::clear() {
  count = 0;
  x.clear();
  y.clear();
  lengths.clear();
  ids.clear();
}

void ExampleSource::skip(std::int64_t count) {
  ExampleBlock block;
  while (count > 0) {
    block.clear();
    read(std::min<std::int64_t>(count, k_block_sequences), block);
    count -= block.count;
  }
}

Import::Import(std::unique_ptr<ExampleSource> source, const ImportTarget& target) : source_(std::move(source)) {
  DatasetSpec spec = target.spec;
  source_->describe(spec);
  spec.import_source = source_name(*source_, spec);
  num_examples_ = spec.num_examples;
  block_examples_ = k_block_sequences;
  if (!spec.sequences) {
    const std::int64_t row = *count_elements(spec.example_shape) * static_cast<std::int64_t>(item_size(spec.dtype));
    block_examples_ = std::max<std::int64_t>(1, k_block_bytes / row);
  }
  writer_ = std::make_unique<DatasetWriter>(target.out, spec, target.force ? Existing::replace : Existing::resume);
}

void Import::write(const ImportProgress& progress) {
  std::int64_t done = writer_->next_example();
  source_->skip(done);
  ExampleBlock block;
  while (done < num_examples_) {
    block.clear();
    source_->read(std::min(block_examples_, num_examples_ - done), block);
    writer_->append(block.view());
    done += block.count;
    if (progress) progress(done, num_examples_);
  }
  source_->expect_end();
}

fs::path import_examples(std::unique_ptr<ExampleSource> source, const ImportTarget& target,
                         const ImportProgress& progress) {
  Import import(std::move(source), target);
  import.write(progress);
  return import.finish();
}

std::string file_fingerprint(const fs::path& path) {
  const OpenFile file = open_regular_file(path);
  const FileIdentity& identity = file.identity;
  return fs::absolute(path).string() + " " + std::to_string(identity.bytes) + " " +
         std::to_string(identity.modified_s) + "." + std::to_string(identity.modified_ns);
}

}  // namespace ripieno::io
