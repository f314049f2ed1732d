#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ripieno/io/dtype.hpp>
#include <ripieno/io/file.hpp>
#include <string>
#include <vector>

namespace ripieno::io {

/// How stored elements become the float32 that models see: `v = x * scale`, then `(v - mean[c]) / std[c]` where mean
/// and std are given. They have one entry, or one per channel (the first dimension of an example).
struct Normalisation {
  float scale = 1.0F;
  std::vector<float> mean;
  std::vector<float> std;

  friend bool operator==(const Normalisation&, const Normalisation&) = default;
};

/// One dataset inside a shard: a contiguous run of little-endian elements of the file.
struct StoredArray {
  std::string name;
  DType dtype = DType::u8;
  std::vector<std::int64_t> shape;  ///< first dimension: examples
  std::uint64_t offset = 0;         ///< of its first byte in the file; meaningless when bytes == 0
  std::uint64_t bytes = 0;
  std::string sha256;  ///< of its raw bytes, 64 hex digits; empty when the file does not say
};

/// All that the metadata of one shard says, checked against the file (format `dpshard` 1, docs/formats.md).
struct ShardInfo {
  std::filesystem::path path;
  FileIdentity identity;

  std::string dataset_name, dataset_id, split, shard_uuid, content_sha256, provenance, created;
  std::string import_source;  ///< names what an import read, so that one that was cut short can go on; else empty
  PrivacyUnit privacy_unit = PrivacyUnit::example;
  std::int64_t shard_index = 0, shard_count = 1;
  std::int64_t num_examples = 0;
  std::int64_t example_offset = 0;  ///< global id of the first example

  /// Either x and y, or sequence_values and sequence_offsets (data of variable length), where y may be missing.
  std::optional<StoredArray> x, y, sequence_values, sequence_offsets;
  std::optional<StoredArray> crc32c;     ///< u32 [N]: checksum of each example's bytes of x
  std::optional<StoredArray> id;         ///< u64 [N] or u8 [N, 16]: a name of each example, or of the person behind it
  Normalisation normalisation;           ///< of x
  std::int64_t num_classes = 0;          ///< of y; 0 when unknown
  std::vector<std::string> class_names;  ///< of y; empty when unknown
  std::optional<std::int64_t> ignore_index;  ///< label that is allowed outside [0, num_classes)
  std::int64_t vocab_size = 0;               ///< of x or sequence_values; 0 when they are not tokens
  std::int64_t pad_id = 0;                   ///< token that fills shorter sequences
  std::string tokenizer, tokenizer_sha256;   ///< what made the tokens; empty when unknown

  /// Every dataset there is, in name order.
  [[nodiscard]] std::vector<const StoredArray*> arrays() const;
  /// Shape of one example of x; {} for sequences.
  [[nodiscard]] std::vector<std::int64_t> example_shape() const;
  /// Shape of the label of one example; {} for one number.
  [[nodiscard]] std::vector<std::int64_t> label_shape() const;
};

/// "[32, 28, 28]"
[[nodiscard]] std::string format_shape(const std::vector<std::int64_t>& shape);
/// Product of the dimensions; nullopt when it, or a dimension, does not fit or is negative.
[[nodiscard]] std::optional<std::int64_t> count_elements(const std::vector<std::int64_t>& shape);
/// SHA-256 over one line "NAME DTYPE SHAPE SHA256" for each array: one name for the whole content of a shard.
[[nodiscard]] std::string content_digest(const std::vector<const StoredArray*>& arrays);

/// Reads and checks the metadata of one file; looks at no example. Reads little, whatever the file claims to hold.
/// DataError names the file, the dataset and what is wrong.
[[nodiscard]] ShardInfo inspect_shard(const std::filesystem::path& path);

}  // namespace ripieno::io
