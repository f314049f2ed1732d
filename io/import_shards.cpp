#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/import_shards.hpp>

namespace ripieno::io {
namespace {

constexpr std::int64_t k_block_sequences = 4096;

/// One shard, read from any row on.
class ShardRows {
 public:
  explicit ShardRows(const ShardInfo& shard) : shard_(shard), file_(open_regular_file(shard.path)) {
    check_unchanged(shard.path, file_.fd.get(), shard.identity);
  }

  void read(std::int64_t first, std::int64_t count, ExampleBlock& block) const {
    if (shard_.x) {
      append(*shard_.x, first, count, block.x);
    } else {
      read_sequences(first, count, block);
    }
    if (shard_.y) append(*shard_.y, first, count, block.y);
    if (shard_.id) {
      const std::size_t before = block.ids.size();
      block.ids.resize(before + static_cast<std::size_t>(count));
      read_at(file_.fd.get(), shard_.id->offset + static_cast<std::uint64_t>(first) * sizeof(std::uint64_t),
              std::as_writable_bytes(std::span(block.ids).subspan(before)), shard_.path);
    }
    block.count += count;
  }

 private:
  void append(const StoredArray& array, std::int64_t first, std::int64_t count, std::vector<std::byte>& out) const {
    const std::uint64_t row = array.bytes / static_cast<std::uint64_t>(array.shape.front());
    const std::size_t before = out.size();
    out.resize(before + static_cast<std::size_t>(count) * row);
    read_at(file_.fd.get(), array.offset + static_cast<std::uint64_t>(first) * row, std::span(out).subspan(before),
            shard_.path);
  }

  void read_sequences(std::int64_t first, std::int64_t count, ExampleBlock& block) const {
    std::vector<std::int64_t> ends(static_cast<std::size_t>(count) + 1);
    read_at(file_.fd.get(), shard_.sequence_offsets->offset + static_cast<std::uint64_t>(first) * sizeof(std::int64_t),
            std::as_writable_bytes(std::span(ends)), shard_.path);
    const StoredArray& values = *shard_.sequence_values;
    if (!std::is_sorted(ends.begin(), ends.end()) || ends.front() < 0 || ends.back() > values.shape.front()) {
      throw DataError(shard_.path.string() + ": dataset 'x_offsets' does not ascend", {}, "verify the dataset");
    }
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) block.lengths.push_back(ends[i + 1] - ends[i]);
    const std::size_t width = item_size(values.dtype);
    const std::size_t before = block.x.size();
    block.x.resize(before + static_cast<std::size_t>(ends.back() - ends.front()) * width);
    if (block.x.size() == before) return;
    read_at(file_.fd.get(), values.offset + static_cast<std::uint64_t>(ends.front()) * width,
            std::span(block.x).subspan(before), shard_.path);
  }

  const ShardInfo& shard_;
  OpenFile file_;
};

class ShardSource : public ExampleSource {
 public:
  explicit ShardSource(std::vector<ShardInfo> shards) : shards_(std::move(shards)) {
    const ShardInfo& first = shards_.front();
    if (first.id && first.id->dtype != DType::u64) {
      throw DataError(first.path.string() + ": its ids are of 16 bytes", "only ids of one u64 can be written again");
    }
    for (const ShardInfo& shard : shards_) num_examples_ += shard.num_examples;
    if (num_examples_ == 0) throw DataError(first.path.string() + " holds no examples");
  }

  void describe(DatasetSpec& spec) const override {
    const ShardInfo& first = shards_.front();
    spec.num_examples = num_examples_;
    spec.privacy_unit = first.privacy_unit;
    if (spec.dataset_name.empty()) spec.dataset_name = first.dataset_name;
    if (spec.split.empty()) spec.split = first.split;
    if (spec.provenance.empty()) spec.provenance = first.provenance;
    spec.sequences = !first.x.has_value();
    spec.dtype = first.x ? first.x->dtype : first.sequence_values->dtype;
    spec.example_shape = first.example_shape();
    spec.normalisation = first.normalisation;
    spec.vocab_size = first.vocab_size;
    spec.pad_id = first.pad_id;
    spec.tokenizer = first.tokenizer;
    spec.labels = first.y.has_value();
    if (first.y) spec.label_dtype = first.y->dtype;
    spec.label_shape = first.label_shape();
    spec.num_classes = first.num_classes;
    spec.class_names = first.class_names;
    spec.ignore_index = first.ignore_index;
    spec.ids = first.id.has_value();
  }
  [[nodiscard]] std::vector<std::string> fingerprint() const override {
    std::vector<std::string> texts{"shards"};
    for (const ShardInfo& shard : shards_) texts.push_back(file_fingerprint(shard.path));
    return texts;
  }

  void skip(std::int64_t count) override { next_ += count; }
  void read(std::int64_t count, ExampleBlock& block) override {
    while (next_ >= end_of_open_) open_next();
    const std::int64_t begin = end_of_open_ - shards_[open_index_].num_examples;
    count = std::min(count, end_of_open_ - next_);
    if (!shards_.front().x) count = std::min(count, k_block_sequences);
    rows_->read(next_ - begin, count, block);
    next_ += count;
  }

 private:
  void open_next() {
    open_index_ = rows_ ? open_index_ + 1 : 0;
    end_of_open_ += shards_.at(open_index_).num_examples;
    rows_.emplace(shards_[open_index_]);
  }

  std::vector<ShardInfo> shards_;
  std::int64_t num_examples_ = 0;
  std::int64_t next_ = 0;
  std::size_t open_index_ = 0;
  std::int64_t end_of_open_ = 0;
  std::optional<ShardRows> rows_;
};

/// Deals examples out one after the other so that part k gets exactly counts[k], every assignment being equally likely:
/// the next example goes to each part with the share that the part has of those still to come.
class Dealer {
 public:
  Dealer(std::vector<std::int64_t> counts, std::uint64_t seed) : left_(std::move(counts)), engine_(seed) {
    total_ = std::accumulate(left_.begin(), left_.end(), std::int64_t{0});
  }

  std::size_t next() {
    auto at = below(static_cast<std::uint64_t>(total_));
    std::size_t part = 0;
    while (std::cmp_greater_equal(at, left_[part])) at -= static_cast<std::uint64_t>(left_[part++]);
    --left_[part];
    --total_;
    return part;
  }

 private:
  // The standard's distributions differ from library to library; this is the same everywhere.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t limit = std::mt19937_64::max() - std::mt19937_64::max() % bound;
    while (true) {
      if (const std::uint64_t value = engine_(); value < limit) return value % bound;
    }
  }

  std::vector<std::int64_t> left_;
  std::int64_t total_ = 0;
  std::mt19937_64 engine_;
};

class PartSource final : public ShardSource {
 public:
  PartSource(std::vector<ShardInfo> shards, std::vector<std::int64_t> counts, std::size_t part, std::uint64_t seed)
      : ShardSource(std::move(shards)), counts_(counts), part_(part), seed_(seed), dealer_(std::move(counts), seed) {}

  void describe(DatasetSpec& spec) const override {
    ShardSource::describe(spec);
    spec.num_examples = counts_[part_];
  }
  [[nodiscard]] std::vector<std::string> fingerprint() const override {
    std::vector<std::string> texts = ShardSource::fingerprint();
    for (const std::int64_t count : counts_) texts.push_back(std::to_string(count));
    texts.insert(texts.end(), {std::to_string(part_), std::to_string(seed_)});
    return texts;
  }

  void skip(std::int64_t count) override {
    while (count > 0) {
      ShardSource::skip(1);
      if (dealer_.next() == part_) --count;
    }
  }
  void read(std::int64_t count, ExampleBlock& block) override {
    const std::int64_t wanted = block.count + count;
    while (block.count < wanted) {
      if (dealer_.next() == part_) {
        ShardSource::read(1, block);
      } else {
        ShardSource::skip(1);
      }
    }
  }

 private:
  std::vector<std::int64_t> counts_;
  std::size_t part_;
  std::uint64_t seed_;
  Dealer dealer_;
};

}  // namespace

std::unique_ptr<ExampleSource> open_shards(std::vector<ShardInfo> shards) {
  return std::make_unique<ShardSource>(std::move(shards));
}

std::unique_ptr<ExampleSource> open_part(std::vector<ShardInfo> shards, std::vector<std::int64_t> counts,
                                         std::size_t part, std::uint64_t seed) {
  return std::make_unique<PartSource>(std::move(shards), std::move(counts), part, seed);
}

}  // namespace ripieno::io
