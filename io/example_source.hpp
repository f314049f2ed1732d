#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <ripieno/io/dataset_writer.hpp>
#include <string>
#include <vector>

namespace ripieno::io {

/// Examples in memory, as in `Examples`.
struct ExampleBlock {
  std::int64_t count = 0;
  std::vector<std::byte> x, y;
  std::vector<std::int64_t> lengths;
  std::vector<std::uint64_t> ids;

  void clear();
  [[nodiscard]] Examples view() const { return {count, x, lengths, y, ids}; }
};

/// Examples that are read once, from front to back, in pieces: what importers read from. Memory is bounded whatever the
/// size of the source.
class ExampleSource {
 public:
  virtual ~ExampleSource() = default;

  /// Fills in what the source decides: number, types and shapes, classes, normalisation. What is there already, such as
  /// a number of classes, is kept where the source does not know better.
  virtual void describe(DatasetSpec& spec) const = 0;
  /// Texts that name the source and how it is read: paths, sizes and times of files, options.
  [[nodiscard]] virtual std::vector<std::string> fingerprint() const = 0;
  /// Passes over the next `count` examples. By default they are read and dropped.
  virtual void skip(std::int64_t count);
  /// Appends at least one and at most `count` of the next examples to `block`. DataError names file and example.
  virtual void read(std::int64_t count, ExampleBlock& block) = 0;
  /// After the last example: DataError when the source holds more than it announced.
  virtual void expect_end() {}
};

/// Told, now and then, how many of all examples are done.
using ImportProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Where an import goes. An import that was cut short goes on where it was when it is started again over the same
/// source; a whole dataset is replaced only where `force` says so.
struct ImportTarget {
  std::filesystem::path out;  ///< folder
  /// Name, split, privacy unit, shards, provenance. Types, shapes and counts come from the source.
  DatasetSpec spec;
  bool force = false;
};

/// An import whose manifest is not yet in place, so that several can be finished together.
class Import {
 public:
  Import(std::unique_ptr<ExampleSource> source, const ImportTarget& target);

  [[nodiscard]] std::int64_t num_examples() const noexcept { return num_examples_; }
  /// Writes all examples; `progress` is told of this import alone.
  void write(const ImportProgress& progress = {});
  /// Puts the manifest in place and returns its path.
  std::filesystem::path finish() { return writer_->finish(); }

 private:
  std::unique_ptr<ExampleSource> source_;
  std::int64_t num_examples_ = 0;
  std::int64_t block_examples_ = 1;
  std::unique_ptr<DatasetWriter> writer_;
};

/// A whole import. Returns the manifest's path.
std::filesystem::path import_examples(std::unique_ptr<ExampleSource> source, const ImportTarget& target,
                                      const ImportProgress& progress = {});

/// Path, size and modification time: changes when the file does.
[[nodiscard]] std::string file_fingerprint(const std::filesystem::path& path);

}  // namespace ripieno::io
