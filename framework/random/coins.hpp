#pragma once

#include <cstdint>
#include <vector>

#include <ripieno/framework/random/key.hpp>

namespace ripieno {

/// The ids of [begin, end), ascending, whose coin at this step shows heads. Coins are independent; each shows heads
/// with probability exactly floor(probability 2^64) / 2^64, or 1, so never with more than was asked for. A coin is a
/// pure function of (key, step, id): cutting the range anywhere changes nothing (invariant P11). It shares no bits with
/// normal deviates of the same key.
///
/// Throws UsageError unless 0 <= begin <= end and 0 <= probability <= 1.
[[nodiscard]] std::vector<std::int64_t> ids_with_heads(const Key& key, std::uint64_t step, std::int64_t begin,
                                                       std::int64_t end, double probability);

/// 64 random bits for each id, a pure function of (key, step, id). Under a key of ids_with_heads they are part of its
/// coins: use another. The ids are not negative.
[[nodiscard]] std::vector<std::uint64_t> random_words(const Key& key, std::uint64_t step,
                                                      const std::vector<std::int64_t>& ids);

}  // namespace ripieno
