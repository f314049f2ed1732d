#pragma once

#include <memory>
#include <mutex>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/random/key.hpp>
#include <ripieno/framework/sampling/sampler.hpp>

namespace ripieno {

/// Poisson sampling of which a draw of more than `max_batch` examples over all ranks keeps a uniformly random subset of
/// that size, the same on every rank. A draw costs each rank one look at all ids.
class TruncatedPoissonSampler final : public Sampler {
 public:
  TruncatedPoissonSampler(IdRange range, std::int64_t num_examples, double sample_rate, std::int64_t max_batch,
                          std::int64_t n_steps, const Key& key);

 private:
  [[nodiscard]] std::vector<std::int64_t> draw(std::int64_t step) const override;

  std::int64_t num_examples_;
  double sample_rate_;
  std::int64_t max_batch_;
  Key coins_, ranks_;
};

/// Example i may be drawn at the steps equal to i modulo `parts` only, there with probability `rate`, independently.
class CyclicPoissonSampler final : public Sampler {
 public:
  CyclicPoissonSampler(IdRange range, std::int64_t parts, double rate, std::int64_t n_steps, const Key& key);

 private:
  [[nodiscard]] std::vector<std::int64_t> draw(std::int64_t step) const override;

  std::int64_t parts_;
  double rate_;
  Key key_;
};

/// Each example falls into one of `bins` bins, at random, independently and for good; step t draws bin t modulo `bins`.
class BallsInBinsSampler final : public Sampler {
 public:
  BallsInBinsSampler(IdRange range, std::int64_t bins, std::int64_t n_steps, const Key& key);

 private:
  [[nodiscard]] std::vector<std::int64_t> draw(std::int64_t step) const override;

  std::int64_t bins_;
  Key key_;
};

/// The horizon is cut as `schedule` says; each example is drawn at one step of each block, at random and independently.
class KOutOfTSampler final : public Sampler {
 public:
  KOutOfTSampler(IdRange range, SamplingSchedule schedule, const Key& key);

 private:
  [[nodiscard]] std::vector<std::int64_t> draw(std::int64_t step) const override;

  SamplingSchedule schedule_;
  Key key_;
};

/// An example that has rested for `separation` - 1 steps is drawn with probability `rate`, independently; at the start
/// each is as rested as in the long run. What a step draws depends on the steps before, so that the first draw after a
/// resume makes them all again, each in the time of a Poisson draw; after that they follow one another.
class MinSeparatedSampler final : public Sampler {
 public:
  MinSeparatedSampler(IdRange range, std::int64_t separation, double rate, std::int64_t n_steps, const Key& key);
  ~MinSeparatedSampler() override;

 private:
  struct Progress;

  [[nodiscard]] std::vector<std::int64_t> draw(std::int64_t step) const override;

  std::int64_t separation_;
  double rate_;
  Key coins_, starts_;
  std::unique_ptr<Progress> progress_;
};

/// Batches in a fixed order: step t draws the `batch` examples equal to t modulo `period`, from id 0 on; what is left
/// of the data after period * batch ids is never drawn. A batch's ids lie apart, so that every rank has its share.
class SequentialSampler final : public Sampler {
 public:
  SequentialSampler(IdRange range, std::int64_t period, std::int64_t batch, std::int64_t n_steps);

 private:
  [[nodiscard]] std::vector<std::int64_t> draw(std::int64_t step) const override;

  std::int64_t period_, batch_;
};

/// The sampler of a plan over this rank's part of its data. `key`: secret, the same on every rank. UsageError when the
/// data set has another number of examples than the plan.
[[nodiscard]] std::shared_ptr<const Sampler> make_sampler(const Shard& shard, const PrivacyPlan& plan, const Key& key);

}  // namespace ripieno
