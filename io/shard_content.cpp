#include <algorithm>
#include <array>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/crc32c.hpp>
#include <ripieno/io/shard_content.hpp>
#include <ripieno/io/value_checks.hpp>
#include <vector>

namespace ripieno::io {
namespace {

constexpr std::size_t k_block_bytes = 1 << 20;  // a multiple of every item size

class ContentVerifier {
 public:
  ContentVerifier(const ShardInfo& shard, const ByteProgress& progress)
      : shard_(shard), progress_(progress), file_(open_regular_file(shard.path)) {
    check_unchanged(shard.path, file_.fd.get(), shard.identity);
  }

  void run() {
    // Checksums first: a value that is wrong because of damage is reported as damage.
    for (const StoredArray* array : shard_.arrays()) check_digest(*array);
    if (shard_.x) check_values(*shard_.x);
    if (shard_.y) check_values(*shard_.y);
    if (shard_.y && !is_floating(shard_.y->dtype)) check_labels(*shard_.y);
    if (shard_.sequence_offsets) check_sequences();
    if (shard_.crc32c) check_example_checksums();
  }

 private:
  [[noreturn]] void fail(const StoredArray& array, const std::string& what, const std::string& why) const {
    throw DataError(shard_.path.string() + ": dataset '" + array.name + "' " + what, why,
                    "correct the source and import it again");
  }

  // Calls visit(bytes, index of the first element in them) for one block after another.
  template <class Visit>
  void for_each_block(const StoredArray& array, Visit visit) {
    buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(array.bytes, k_block_bytes)));
    for (std::uint64_t done = 0; done < array.bytes;) {
      const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(array.bytes - done, k_block_bytes));
      const auto block = std::span(buffer_).first(length);
      read_at(file_.fd.get(), array.offset + done, block, shard_.path);
      visit(std::span<const std::byte>(block), static_cast<std::int64_t>(done / item_size(array.dtype)));
      done += length;
    }
  }

  void check_digest(const StoredArray& array) {
    Sha256 hash;
    for_each_block(array, [&](std::span<const std::byte> block, std::int64_t) {
      hash.update({reinterpret_cast<const std::uint8_t*>(block.data()), block.size()});
      if (progress_) progress_(block.size());
    });
    if (to_hex(hash.finish()) != array.sha256) {
      throw DataError(shard_.path.string() + ": checksum of dataset '" + array.name + "' does not match",
                      "the data were damaged or edited after they were written", "copy or import the file again");
    }
  }

  // Elements of one example.
  static std::int64_t row_of(const StoredArray& array) {
    return std::max<std::int64_t>(1, *count_elements({array.shape.begin() + 1, array.shape.end()}));
  }

  void check_values(const StoredArray& array) {
    const LabelRange tokens{array.name == "x" ? shard_.vocab_size : 0, std::nullopt};
    for_each_block(array, [&](std::span<const std::byte> block, std::int64_t first) {
      if (is_floating(array.dtype)) {
        if (const auto at = find_non_finite(block, array.dtype)) {
          fail(array, "example " + std::to_string((first + *at) / row_of(array)) + " is not finite", "NaN or infinity");
        }
      } else if (tokens.known()) {
        if (const auto at = find_outside(block, array.dtype, tokens)) {
          fail(array, "example " + std::to_string((first + *at) / row_of(array)) + " has a token out of range",
               "outside [0, " + std::to_string(tokens.num_classes) + ")");
        }
      }
    });
  }

  void check_labels(const StoredArray& y) {
    const LabelRange range{shard_.num_classes, shard_.ignore_index};
    if (!range.known()) return;
    for_each_block(y, [&](std::span<const std::byte> block, std::int64_t first) {
      if (const auto at = find_outside(block, y.dtype, range)) {
        fail(y, "example " + std::to_string((first + *at) / row_of(y)) + " has a label out of range",
             "outside [0, " + std::to_string(range.num_classes) + ")");
      }
    });
  }

  void check_sequences() {
    const StoredArray& offsets = *shard_.sequence_offsets;
    const StoredArray& values = *shard_.sequence_values;
    std::int64_t previous = 0;
    for_each_block(offsets, [&](std::span<const std::byte> block, std::int64_t first) {
      for (std::size_t i = 0; i * sizeof(std::int64_t) < block.size(); ++i) {
        std::int64_t offset = 0;
        std::memcpy(&offset, block.data() + i * sizeof offset, sizeof offset);
        const std::int64_t index = first + static_cast<std::int64_t>(i);
        if (index == 0 && offset != 0) fail(offsets, "does not start at 0", "the first values belong to no example");
        if (offset < previous) fail(offsets, "decreases after example " + std::to_string(index - 1), "offsets ascend");
        previous = offset;
      }
    });
    if (previous != values.shape[0]) {
      fail(offsets, "does not end at the number of values", std::to_string(values.shape[0]) + " values in 'x_values'");
    }
    check_tokens(values);
  }

  void check_tokens(const StoredArray& values) {
    const LabelRange range{shard_.vocab_size, std::nullopt};
    for_each_block(values, [&](std::span<const std::byte> block, std::int64_t first) {
      if (is_floating(values.dtype)) {
        if (const auto at = find_non_finite(block, values.dtype)) {
          fail(values, "example " + std::to_string(sequence_of(first + *at)) + " is not finite", "NaN or infinity");
        }
      } else if (const auto at = find_outside(block, values.dtype, range)) {
        fail(values, "example " + std::to_string(sequence_of(first + *at)) + " has a token out of range",
             "outside [0, " + std::to_string(range.num_classes) + ")");
      }
    });
  }

  // Found wanting only where someone wrote other checksums than the data have: damage was noticed before.
  void check_example_checksums() {
    const StoredArray& sums = *shard_.crc32c;
    std::vector<std::byte> row;
    for (std::int64_t example = 0; example < shard_.num_examples; ++example) {
      const auto index = static_cast<std::uint64_t>(example);
      const auto [offset, bytes] = place_of(index);
      row.resize(bytes);
      read_at(file_.fd.get(), offset, row, shard_.path);
      std::uint32_t stated = 0;
      read_at(file_.fd.get(), sums.offset + index * sizeof stated, std::as_writable_bytes(std::span(&stated, 1)),
              shard_.path);
      if (stated != crc32c(row)) {
        fail(sums, "does not belong to example " + std::to_string(example), "its bytes have another checksum");
      }
    }
  }

  // Where the bytes of one example lie in the file.
  [[nodiscard]] std::pair<std::uint64_t, std::size_t> place_of(std::uint64_t example) const {
    if (shard_.x) {
      const std::uint64_t bytes = shard_.x->bytes / static_cast<std::uint64_t>(shard_.num_examples);
      return {shard_.x->offset + example * bytes, bytes};
    }
    std::array<std::uint64_t, 2> ends{};
    read_at(file_.fd.get(), shard_.sequence_offsets->offset + example * sizeof(std::uint64_t),
            std::as_writable_bytes(std::span(ends)), shard_.path);
    const std::size_t width = item_size(shard_.sequence_values->dtype);
    return {shard_.sequence_values->offset + ends[0] * width, (ends[1] - ends[0]) * width};
  }

  // Example whose sequence holds value `position`; the offsets are known to ascend from 0. Uses its own buffer: it is
  // called while a block is being looked at.
  [[nodiscard]] std::int64_t sequence_of(std::int64_t position) const {
    std::int64_t low = 0;
    std::int64_t high = shard_.num_examples;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      std::int64_t offset = 0;
      read_at(file_.fd.get(), shard_.sequence_offsets->offset + static_cast<std::uint64_t>(middle) * sizeof offset,
              std::as_writable_bytes(std::span(&offset, 1)), shard_.path);
      (offset <= position ? low : high) = middle;
    }
    return low;
  }

  const ShardInfo& shard_;
  const ByteProgress& progress_;
  OpenFile file_;
  std::vector<std::byte> buffer_;
};

}  // namespace

void verify_content(const ShardInfo& shard, const ByteProgress& progress) { ContentVerifier(shard, progress).run(); }

}  // namespace ripieno::io
