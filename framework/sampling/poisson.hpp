#pragma once

#include <cstdint>
#include <vector>

#include <ripieno/framework/random/key.hpp>
#include <ripieno/framework/sampling/sampler.hpp>

namespace ripieno {

struct PoissonOptions {
  double sample_rate;    ///< probability q of each example at each step, 0 <= q <= 1
  std::int64_t n_steps;  ///< steps 0 ... n_steps - 1 can be drawn
  Key key;               ///< the same on every rank
};

/// Poisson sampling: at every step every example is drawn independently with probability sample_rate, rounded down to a
/// multiple of 2^-64, so that the accountant's rate is never exceeded.
///
/// Whether step t draws example i is a pure function of (key, t, i): the ranks' draws together are the same for any
/// world size (invariant P11), nothing is replayed on a resume, and the draw needs no communication.
class PoissonSampler final : public Sampler {
 public:
  /// Draws from the shard's own examples. UsageError for a rate outside [0, 1], a negative number of steps or range.
  PoissonSampler(const Shard& shard, PoissonOptions options);
  PoissonSampler(IdRange range, PoissonOptions options);
  /// Rate and steps of the plan. UsageError when the dataset has another number of examples than the plan.
  PoissonSampler(const Shard& shard, const PrivacyPlan& plan, const Key& key);

  [[nodiscard]] double sample_rate() const { return sample_rate_; }

 private:
  /// About a millisecond for a million examples.
  [[nodiscard]] std::vector<std::int64_t> draw(std::int64_t step) const override;

  double sample_rate_;
  Key key_;
};

}  // namespace ripieno
