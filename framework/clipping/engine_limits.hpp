#pragma once

#include <cstdint>

namespace ripieno {

/// What an engine may take for the sake of speed.
struct EngineLimits {
  /// Bytes that the per-example gradients of one microbatch may take beyond a plain step. A microbatch that needs more
  /// is clipped in parts of at least one example, which changes the sum by rounding only.
  std::int64_t memory_budget = std::int64_t{256} << 20;
  /// Contributions may enter a sum as terms whose norms add up to at most this many times the contribution's own. A
  /// term passes through one rounding for each example of the microbatch, and with a spread above 1 through one for
  /// each row of a few as well, so a plan's rho has to allow for it; 1 keeps to what rho is proven for without.
  double max_spread = 1;
};

}  // namespace ripieno
