#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <ripieno/io/access.hpp>
#include <ripieno/io/convert.hpp>
#include <ripieno/io/dtype.hpp>
#include <ripieno/io/foreign_dataset.hpp>
#include <ripieno/io/shard_files.hpp>
#include <ripieno/io/shard_info.hpp>
#include <ripieno/io/value_checks.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno::io {

/// How much of a dataset is read before it is used.
enum class Verify {
  automatic,  ///< full up to 2 GB unless it was verified since it last changed; open above
  open,       ///< structure, counts, ids and duplicates: the metadata only
  full,       ///< every byte as well: checksums, NaN, label ranges
};

struct OpenOptions {
  Verify verify = Verify::open;
  Access access = Access::automatic;
  /// Names of the datasets of a foreign HDF5 file, which `path` then is.
  std::optional<FieldMap> fields = {};
};

/// A whole dataset: the shards of a manifest, or a foreign HDF5 file, checked and opened. Immutable; any number of
/// threads may read at once. Shards are read without HDF5. Example ids are global row indices, [0, num_examples()).
///
/// Where contents were not verified at the opening, and the shards carry checksums of single examples, each example is
/// checked when it is first delivered.
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
  /// As stored, without the example dimension: {1, 28, 28} or {28, 28}. Empty for sequences.
  [[nodiscard]] std::span<const std::int64_t> example_shape() const noexcept { return example_shape_; }
  /// Product of example_shape().
  [[nodiscard]] std::int64_t example_numel() const noexcept { return example_numel_; }
  [[nodiscard]] std::span<const std::int64_t> label_shape() const noexcept { return label_shape_; }
  [[nodiscard]] std::int64_t label_numel() const noexcept { return label_numel_; }
  /// Type of x, or of the values of sequences, in the files.
  [[nodiscard]] DType stored_dtype() const noexcept { return values().dtype; }
  /// Type of y in the files; labels are integers unless it is f32. UsageError where there are none.
  [[nodiscard]] DType label_dtype() const;
  /// False for sequences that come without.
  [[nodiscard]] bool has_labels() const noexcept { return first().y.has_value(); }
  /// Whether examples are lists of different lengths.
  [[nodiscard]] bool has_sequences() const noexcept { return first().sequence_values.has_value(); }
  /// Whether x holds tokens [0, vocab_size()), and not numbers to compute with.
  [[nodiscard]] bool has_tokens() const noexcept { return first().vocab_size > 0; }
  [[nodiscard]] std::int64_t vocab_size() const noexcept { return first().vocab_size; }
  [[nodiscard]] std::int64_t pad_id() const noexcept { return first().pad_id; }
  /// 0 when the files do not say.
  [[nodiscard]] std::int64_t num_classes() const noexcept { return first().num_classes; }
  [[nodiscard]] const std::vector<std::string>& class_names() const noexcept { return first().class_names; }
  [[nodiscard]] std::int64_t num_shards() const noexcept { return static_cast<std::int64_t>(files_.size()); }
  [[nodiscard]] const ShardInfo& shard(std::int64_t index) const {
    return files_.info(static_cast<std::size_t>(index));
  }

  /// Normalised float32 of the examples `ids`, in that order, row-major [n, example_shape]. `out` must have exactly
  /// that many elements. UsageError for a wrong size or id, or for sequences; DataError when a file was cut or its disk
  /// fails.
  void gather_x(std::span<const std::int64_t> ids, std::span<float> out) const;
  /// Number of values of each of the examples.
  [[nodiscard]] std::vector<std::int64_t> lengths(std::span<const std::int64_t> ids) const;
  /// Integer values, as of tokens: [n, length], shorter sequences filled with pad_id(), longer ones refused.
  void gather_tokens(std::span<const std::int64_t> ids, std::int64_t length, std::span<std::int64_t> out) const;
  /// Integer labels, [n, label_shape]. DataError names file and example of a label outside [0, num_classes).
  void gather_y(std::span<const std::int64_t> ids, std::span<std::int64_t> out) const;
  /// Floating-point labels, [n, label_shape].
  void gather_targets(std::span<const std::int64_t> ids, std::span<float> out) const;
  /// Starts reading the examples `ids` from disk, without waiting, unless they seem to be in memory already. Call it
  /// for the next batch before gathering this one: a cold file is then read tens of times faster. Best with ascending
  /// ids.
  void prefetch(std::span<const std::int64_t> ids) const;
  /// DataError when a shard was replaced, cut, extended or touched since it was opened. A microsecond a shard.
  void check_unchanged() const;
  /// The same for the shards of these examples alone.
  void check_unchanged(std::span<const std::int64_t> ids) const;

 private:
  using ArrayOf = std::optional<StoredArray> ShardInfo::*;
  /// Bytes of one shard's file that belong to entry `position` of a request.
  struct Extent {
    std::size_t position = 0;
    std::size_t shard = 0;
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };
  /// One bit an example: set when its checksum was found right.
  using CheckedBits = std::vector<std::atomic<std::uint64_t>>;

  ShardSet(std::vector<ShardInfo> infos, OpenOptions options, std::unique_ptr<ForeignArrays> foreign);
  [[nodiscard]] const ShardInfo& first() const noexcept { return files_.info(0); }
  [[nodiscard]] const StoredArray& values() const noexcept {
    return has_sequences() ? *first().sequence_values : *first().x;
  }
  void check_ids(std::span<const std::int64_t> ids, std::size_t expected_size, std::size_t size) const;
  [[nodiscard]] std::size_t row_bytes(ArrayOf array) const;
  template <class Visit>
  void for_each_id(std::span<const std::int64_t> ids, Visit visit) const;
  template <class Visit>
  void for_each_row(std::span<const std::int64_t> ids, ArrayOf array, Visit visit) const;
  template <class Visit>
  void for_each_mapped_row(std::span<const std::int64_t> ids, ArrayOf array, Visit visit) const;
  template <class Visit>
  void for_each_extent(std::vector<Extent> extents, Visit visit) const;
  template <class Visit>
  void for_each_example(std::span<const std::int64_t> ids, Visit visit) const;
  template <class Visit>
  void read_foreign(std::span<const std::int64_t> ids, ArrayOf array, Visit visit) const;
  template <class Body>
  void guarded(Body body) const;
  template <class Place, class Body>
  void in_mapped_runs(std::span<const Place> places, Body body) const;
  /// Where these rows of an array of rows lie.
  [[nodiscard]] std::vector<Extent> row_extents(std::span<const std::int64_t> ids, ArrayOf array) const;
  [[nodiscard]] std::vector<Extent> sequence_extents(std::span<const std::int64_t> ids) const;
  /// Where the inputs of these examples lie.
  [[nodiscard]] std::vector<Extent> extents_of(std::span<const std::int64_t> ids) const {
    return has_sequences() ? sequence_extents(ids) : row_extents(ids, &ShardInfo::x);
  }
  void check_first_delivery(std::span<const std::int64_t> ids) const;
  void check_labels(std::span<const std::int64_t> ids, std::span<const std::int64_t> labels) const;
  [[noreturn]] void fail_example(std::int64_t id, const char* dataset, const std::string& what, const std::string& why,
                                 const std::string& advice) const;
  [[nodiscard]] bool seems_cached(std::span<const std::int64_t> ids) const;
  void request(const std::vector<Extent>& extents) const;

  ShardFiles files_;
  std::vector<std::int64_t> starts_;  // first id of each shard, then num_examples
  std::vector<std::int64_t> example_shape_, label_shape_;
  std::int64_t example_numel_ = 1, label_numel_ = 1;
  std::unique_ptr<RowConverter> convert_;  // none for sequences
  LabelRange labels_;
  std::unique_ptr<CheckedBits> checked_;  // none where nothing is left to check
  std::unique_ptr<ForeignArrays> foreign_;
};

// Calls visit(position in ids, shard, row in the shard). Runs of ids in one shard, the usual case, need no search.
template <class Visit>
void ShardSet::for_each_id(std::span<const std::int64_t> ids, Visit visit) const {
  std::size_t shard = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = ids[i];
    if (id < starts_[shard] || id >= starts_[shard + 1]) {
      shard = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), id) - starts_.begin()) - 1;
    }
    visit(i, shard, static_cast<std::uint64_t>(id - starts_[shard]));
  }
}

}  // namespace ripieno::io
