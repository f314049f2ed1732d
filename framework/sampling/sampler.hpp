#pragma once

#include <cstdint>
#include <vector>

#include <ripieno/framework/sampling/shard.hpp>

namespace ripieno {

class PrivacyPlan;

/// UsageError unless the shard's data set has as many examples as the plan.
void check_same_size(const PrivacyPlan& plan, const Shard& shard);

/// Which examples of a range of ids each step draws. The draw of a step is a function of key, step and global example
/// id, so that the ranks' draws together are the same for any world size (invariant P11), nothing is communicated and a
/// resume costs nothing, except where a sampler says otherwise. Members may be called from several threads.
class Sampler {
 public:
  virtual ~Sampler() = default;

  /// The ids of the range that step `step` draws, ascending; often none. UsageError for a step outside [0, n_steps).
  [[nodiscard]] std::vector<std::int64_t> ids(std::int64_t step) const;

  [[nodiscard]] const IdRange& range() const { return range_; }
  [[nodiscard]] std::int64_t n_steps() const { return n_steps_; }

 protected:
  /// UsageError for a range that is none, or a negative number of steps.
  Sampler(IdRange range, std::int64_t n_steps);
  Sampler(const Sampler&) = default;
  Sampler& operator=(const Sampler&) = default;

 private:
  [[nodiscard]] virtual std::vector<std::int64_t> draw(std::int64_t step) const = 0;

  IdRange range_;
  std::int64_t n_steps_;
};

}  // namespace ripieno
