#pragma once

#include <cstdint>
#include <filesystem>
#include <ripieno/io/convert.hpp>
#include <ripieno/io/dtype.hpp>
#include <ripieno/io/file.hpp>
#include <ripieno/io/shard_info.hpp>
#include <ripieno/io/value_checks.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno::io {

/// How much of a dataset is read before it is used.
enum class Verify {
  automatic,  ///< full up to 2 GB, open above
  open,       ///< structure, counts, ids and duplicates: the metadata only
  full,       ///< every byte as well: checksums, NaN, label ranges
};

struct OpenOptions {
  Verify verify = Verify::open;
};

/// A whole dataset: the shards of a manifest, checked and mapped. Immutable; any number of threads may read at once.
/// HDF5 is used while opening only. Example ids are global row indices, [0, num_examples()).
class ShardSet {
 public:
  /// `path`: a manifest, or a folder that holds exactly one. DataError for anything that is wrong with the files,
  /// before anything is read from them.
  [[nodiscard]] static ShardSet open(const std::filesystem::path& path, OpenOptions options = {});

  [[nodiscard]] std::int64_t num_examples() const noexcept { return starts_.back(); }
  [[nodiscard]] const std::string& dataset_id() const noexcept { return first().dataset_id; }
  [[nodiscard]] const std::string& name() const noexcept { return first().dataset_name; }
  [[nodiscard]] const std::string& split() const noexcept { return first().split; }
  [[nodiscard]] PrivacyUnit privacy_unit() const noexcept { return first().privacy_unit; }
  /// As stored, without the example dimension: {1, 28, 28} or {28, 28}.
  [[nodiscard]] std::span<const std::int64_t> example_shape() const noexcept { return example_shape_; }
  /// Product of example_shape().
  [[nodiscard]] std::int64_t example_numel() const noexcept { return example_numel_; }
  /// Type of x in the files.
  [[nodiscard]] DType stored_dtype() const noexcept { return first().x->dtype; }
  /// 0 when the files do not say.
  [[nodiscard]] std::int64_t num_classes() const noexcept { return first().num_classes; }
  [[nodiscard]] const std::vector<std::string>& class_names() const noexcept { return first().class_names; }
  [[nodiscard]] std::int64_t num_shards() const noexcept { return static_cast<std::int64_t>(shards_.size()); }
  [[nodiscard]] const ShardInfo& shard(std::int64_t index) const {
    return shards_.at(static_cast<std::size_t>(index)).info;
  }

  /// Normalised float32 of the examples `ids`, in that order, row-major [n, example_shape]. `out` must have exactly
  /// that many elements. UsageError for a wrong size or id; DataError when a file was cut or its disk fails.
  void gather_x(std::span<const std::int64_t> ids, std::span<float> out) const;
  /// Labels of the examples `ids`. DataError names file and example of a label outside [0, num_classes).
  void gather_y(std::span<const std::int64_t> ids, std::span<std::int64_t> out) const;
  /// Starts reading the examples `ids` from disk, without waiting, unless they seem to be in memory already. Call it
  /// for the next batch before gathering this one: a cold file is then read tens of times faster. Best with ascending
  /// ids.
  void prefetch(std::span<const std::int64_t> ids) const;
  /// DataError when a shard was replaced, cut, extended or touched since it was opened. A few microseconds a shard.
  void check_unchanged() const;

 private:
  struct Shard {
    ShardInfo info;
    UniqueFd fd;
    Mapping mapping;
    const std::byte* x = nullptr;
    const std::byte* y = nullptr;
  };

  explicit ShardSet(std::vector<ShardInfo> infos);
  [[nodiscard]] const ShardInfo& first() const noexcept { return shards_.front().info; }
  void check_ids(std::span<const std::int64_t> ids, std::size_t expected_size, std::size_t size) const;
  template <class Visit>
  void for_each_row(std::span<const std::int64_t> ids, Visit visit) const;
  template <class Body>
  void guarded(Body body) const;
  void check_labels(std::span<const std::int64_t> ids, std::span<const std::int64_t> labels) const;
  [[nodiscard]] bool seems_cached(std::span<const std::int64_t> ids) const;
  void request(std::span<const std::int64_t> ids, const std::byte* Shard::*array, std::size_t row_bytes) const;

  std::vector<Shard> shards_;
  std::vector<std::int64_t> starts_;  // first id of each shard, then num_examples
  std::vector<std::int64_t> example_shape_;
  std::int64_t example_numel_;
  RowConverter convert_;
  LabelRange labels_;
};

}  // namespace ripieno::io
