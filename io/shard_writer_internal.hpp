#pragma once
// Internal to io: includes hdf5.h.

#include <cstdint>
#include <filesystem>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/io/dataset_writer.hpp>
#include <ripieno/io/hdf5_handle_internal.hpp>
#include <ripieno/io/manifest.hpp>
#include <span>

namespace ripieno::io {

/// Place of one shard in its dataset.
struct ShardPlace {
  std::int64_t index = 0;
  std::int64_t example_offset = 0;
  std::int64_t num_examples = 0;
};

/// Writes one shard under the name it is given. `spec` must outlive it, with dataset_id and created filled in.
class ShardWriter {
 public:
  ShardWriter(const std::filesystem::path& path, const DatasetSpec& spec, ShardPlace place);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  [[nodiscard]] std::int64_t remaining() const noexcept { return place_.num_examples - written_; }
  /// At most remaining() examples, as in DatasetWriter::append.
  void append(std::span<const std::byte> x, std::span<const std::int64_t> y);
  /// Checksums and attributes, then to disk. The entry's path is left empty.
  [[nodiscard]] ManifestEntry close();

 private:
  struct Column {
    StoredArray array;
    hdf5::Dataset dataset;
    Sha256 hash;
  };

  [[noreturn]] void fail() const;
  [[nodiscard]] Column create(const char* name, DType dtype, std::vector<std::int64_t> shape) const;
  void write_rows(Column& column, std::span<const std::byte> bytes, std::int64_t rows);
  void write_attributes(const std::string& content_sha256, const std::string& shard_uuid);

  std::filesystem::path path_;
  const DatasetSpec& spec_;
  ShardPlace place_;
  std::int64_t written_ = 0;
  hdf5::File file_;
  Column x_, y_;
};

}  // namespace ripieno::io
