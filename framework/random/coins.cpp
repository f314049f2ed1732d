#include <ripieno/framework/random/coins.hpp>

#include <bit>
#include <cmath>
#include <numeric>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/framework/random/kernels.hpp>

namespace ripieno {

namespace {

// A coin is a 64-bit number u, heads when u < threshold. Its top 16 bits decide but in a tie with the threshold's, one
// case in 65536; only then are the other 48 made. That makes four times as many coins of the same random bits.
constexpr std::uint64_t k_tile = 512;
constexpr int k_low_bits = 48;
constexpr std::uint64_t k_low_mask = (std::uint64_t{1} << k_low_bits) - 1;

std::vector<std::int64_t> all_ids(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(end - begin));
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

/// Bits of a mask for ids [start, start + 32) that lie in [begin, end).
std::uint32_t inside(std::int64_t start, std::int64_t begin, std::int64_t end) {
  std::uint32_t mask = ~std::uint32_t{0};
  if (start < begin) mask = begin - start < 32 ? mask << (begin - start) : 0;
  if (end - start < 32) mask = end > start ? mask & ~(~std::uint32_t{0} << (end - start)) : 0;
  return mask;
}

/// Leaves the coins of ids in [begin, end), of a tile whose first id is `first`.
void keep_inside(std::int64_t first, std::int64_t begin, std::int64_t end, std::uint32_t (&below)[16],
                 std::uint32_t (&tied)[16]) {
  for (int word = 0; word < 16; ++word) {
    const std::uint32_t wanted = inside(first + 32 * word, begin, end);
    below[word] &= wanted;
    tied[word] &= wanted;
  }
}

}  // namespace

std::vector<std::int64_t> ids_with_heads(const Key& key, std::uint64_t step, std::int64_t begin, std::int64_t end,
                                         double probability) {
  const double q = SampleRate(probability).value();
  if (begin < 0 || begin > end) throw UsageError("a range of ids must have 0 <= begin <= end");
  if (q == 1) return all_ids(begin, end);
  const auto threshold = static_cast<std::uint64_t>(std::ldexp(q, 64));  // the cast drops the fraction
  if (threshold == 0 || begin == end) return {};

  const auto& kernels = random_detail::fastest_kernels();
  const auto high = static_cast<std::uint16_t>(threshold >> k_low_bits);
  const double expected = static_cast<double>(end - begin) * q;
  std::vector<std::int64_t> ids;
  ids.reserve(static_cast<std::size_t>(expected + 6 * std::sqrt(expected) + 16));

  const auto last_tile = static_cast<std::uint64_t>(end - 1) / k_tile;
  for (std::uint64_t tile = static_cast<std::uint64_t>(begin) / k_tile; tile <= last_tile; ++tile) {
    std::uint32_t below[16], tied[16];
    kernels.compare_coins(key.words.data(), step, tile, high, below, tied);
    const auto first = static_cast<std::int64_t>(tile * k_tile);
    if (first < begin || first + static_cast<std::int64_t>(k_tile) > end) keep_inside(first, begin, end, below, tied);
    for (int word = 0; word < 16; ++word) {
      std::uint32_t heads = below[word];
      if ((heads | tied[word]) == 0) continue;  // most often, at small probabilities
      const std::int64_t start = first + 32 * word;
      for (std::uint32_t rest = tied[word]; rest != 0; rest &= rest - 1) {
        const int bit = std::countr_zero(rest);
        const auto id = static_cast<std::uint64_t>(start + bit);
        const std::uint64_t low = random_detail::tied_coin(key.words.data(), step, id) & k_low_mask;
        if (low < (threshold & k_low_mask)) heads |= std::uint32_t{1} << bit;
      }
      for (; heads != 0; heads &= heads - 1) ids.push_back(start + std::countr_zero(heads));
    }
  }
  return ids;
}

}  // namespace ripieno
