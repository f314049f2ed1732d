#include <ripieno/framework/random/coins.hpp>

#include <bit>
#include <cmath>
#include <numeric>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/framework/random/kernels.hpp>

namespace ripieno {

namespace {

// A coin is a 64-bit number u, heads when u < threshold. Its top 8 bits decide but in a tie with the threshold's, one
// case in 256; only then are the other 56 made. That makes nearly eight times as many coins of the same random bits.
constexpr std::uint64_t k_tile = 1024;
constexpr int k_low_bits = 56;
constexpr std::uint64_t k_low_mask = (std::uint64_t{1} << k_low_bits) - 1;

std::vector<std::int64_t> all_ids(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(end - begin));
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

/// Bits of a mask for ids [start, start + 64) that lie in [begin, end).
std::uint64_t inside(std::int64_t start, std::int64_t begin, std::int64_t end) {
  std::uint64_t mask = ~std::uint64_t{0};
  if (start < begin) mask = begin - start < 64 ? mask << (begin - start) : 0;
  if (end - start < 64) mask = end > start ? mask & ~(~std::uint64_t{0} << (end - start)) : 0;
  return mask;
}

/// Leaves the coins of ids in [begin, end), of a tile whose first id is `first`.
void keep_inside(std::int64_t first, std::int64_t begin, std::int64_t end, std::uint64_t (&below)[16],
                 std::uint64_t (&tied)[16]) {
  for (int word = 0; word < 16; ++word) {
    const std::uint64_t wanted = inside(first + 64 * word, begin, end);
    below[word] &= wanted;
    tied[word] &= wanted;
  }
}

/// An id whose coin ties with the threshold has this bit until it is decided.
constexpr std::int64_t k_tied = INT64_MIN;

/// Writes the ids of set bits of `below` and `tied`, ascending, and returns the end of what it wrote. Most words are
/// zero at small probabilities: those that are not are found first, without a jump.
std::int64_t* put_candidates(std::int64_t first, const std::uint64_t (&below)[16], const std::uint64_t (&tied)[16],
                             std::int64_t* out) {
  std::uint32_t words = 0;
  for (int word = 0; word < 16; ++word) words |= std::uint32_t{(below[word] | tied[word]) != 0} << word;
  for (; words != 0; words &= words - 1) {
    const int word = std::countr_zero(words);
    for (std::uint64_t rest = below[word] | tied[word]; rest != 0; rest &= rest - 1) {
      const int bit = std::countr_zero(rest);
      *out++ = (first + 64 * word + bit) | ((tied[word] >> bit & 1) != 0 ? k_tied : 0);
    }
  }
  return out;
}

/// Takes away the tied ids whose low bits show tails.
void decide_ties(const Key& key, std::uint64_t step, std::uint64_t threshold, std::vector<std::int64_t>& ids) {
  std::vector<std::int64_t> tied;
  for (const std::int64_t id : ids) {
    if ((id & k_tied) != 0) tied.push_back(id & ~k_tied);
  }
  const std::vector<std::uint64_t> words = random_words(key, step, tied);
  std::size_t kept = 0, decided = 0;
  for (const std::int64_t id : ids) {
    if ((id & k_tied) != 0 && (words[decided++] & k_low_mask) >= (threshold & k_low_mask)) continue;
    ids[kept++] = id & ~k_tied;
  }
  ids.resize(kept);
}

}  // namespace

std::vector<std::uint64_t> random_words(const Key& key, std::uint64_t step, const std::vector<std::int64_t>& ids) {
  std::vector<std::uint64_t> words(ids.size());
  random_detail::fastest_kernels().tied_coins(key.words.data(), step, ids.data(), ids.size(), words.data());
  return words;
}

std::vector<std::int64_t> ids_with_heads(const Key& key, std::uint64_t step, std::int64_t begin, std::int64_t end,
                                         double probability) {
  const double q = SampleRate(probability).value();
  if (begin < 0 || begin > end) throw UsageError("a range of ids must have 0 <= begin <= end");
  if (q == 1) return all_ids(begin, end);
  const auto threshold = static_cast<std::uint64_t>(std::ldexp(q, 64));  // the cast drops the fraction
  if (threshold == 0 || begin == end) return {};

  const auto& kernels = random_detail::fastest_kernels();
  const auto high = static_cast<std::uint8_t>(threshold >> k_low_bits);
  const double expected = static_cast<double>(end - begin) * (q + std::ldexp(1.0, k_low_bits - 64));  // with the ties
  std::vector<std::int64_t> ids(static_cast<std::size_t>(expected + 6 * std::sqrt(expected)) + k_tile);
  std::size_t found = 0;

  const auto last_tile = static_cast<std::uint64_t>(end - 1) / k_tile;
  for (std::uint64_t tile = static_cast<std::uint64_t>(begin) / k_tile; tile <= last_tile; ++tile) {
    std::uint64_t below[16], tied[16];
    kernels.compare_coins(key.words.data(), step, tile, high, below, tied);
    const auto first = static_cast<std::int64_t>(tile * k_tile);
    if (first < begin || end - first < static_cast<std::int64_t>(k_tile)) keep_inside(first, begin, end, below, tied);
    if (ids.size() - found < k_tile) ids.resize(2 * ids.size());
    found = static_cast<std::size_t>(put_candidates(first, below, tied, ids.data() + found) - ids.data());
  }
  ids.resize(found);
  decide_ties(key, step, threshold, ids);
  return ids;
}

}  // namespace ripieno
