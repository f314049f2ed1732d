#pragma once
// Internal to io: includes hdf5.h.

#include <cstdint>
#include <deque>
#include <filesystem>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/io/dataset_writer.hpp>
#include <ripieno/io/file.hpp>
#include <ripieno/io/hdf5_handle_internal.hpp>
#include <ripieno/io/manifest.hpp>
#include <ripieno/io/spill_file.hpp>
#include <span>

namespace ripieno::io {

/// Place of one shard in its dataset.
struct ShardPlace {
  std::int64_t index = 0;
  std::int64_t example_offset = 0;
  std::int64_t num_examples = 0;
};

/// Writes one shard under the name it is given. `spec` must outlive it, with dataset_id and created filled in. Holds a
/// lock on the file, which tells other writers that it is not left over.
class ShardWriter {
 public:
  ShardWriter(const std::filesystem::path& path, const DatasetSpec& spec, ShardPlace place);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  [[nodiscard]] std::int64_t remaining() const noexcept { return place_.num_examples - written_; }
  /// At most remaining() examples, as in DatasetWriter::append.
  void append(const Examples& examples);
  /// Checksums and attributes, then to disk. The entry's path is left empty.
  [[nodiscard]] ManifestEntry close();

 private:
  struct Column {
    StoredArray array;
    hdf5::Dataset dataset;
    Sha256 hash;
    std::int64_t rows = 0;  ///< written so far
  };

  [[noreturn]] void fail() const;
  Column& add_column(const char* name, DType dtype, std::vector<std::int64_t> shape);
  void write_rows(Column& column, std::span<const std::byte> bytes, std::int64_t rows);
  void write_lengths(std::span<const std::int64_t> lengths);
  void write_checksums(const Examples& examples);
  void write_spilled_values();
  void write_root_attributes(const std::string& content_sha256, const std::string& shard_uuid);
  void write_column_attributes(const Column& column);

  std::filesystem::path path_;
  const DatasetSpec& spec_;
  ShardPlace place_;
  std::int64_t written_ = 0;
  hdf5::File file_;
  UniqueFd lock_;
  std::deque<Column> columns_;  // in name order; a deque, so that the pointers below stay valid
  Column* id_ = nullptr;
  Column* x_ = nullptr;
  Column* checksums_ = nullptr;
  Column* offsets_ = nullptr;
  Column* y_ = nullptr;
  /// Values of sequences: HDF5 wants their number before the first of them, so they wait here.
  SpillFile values_;
  std::int64_t num_values_ = 0;
};

}  // namespace ripieno::io
