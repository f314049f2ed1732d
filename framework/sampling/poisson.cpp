#include <ripieno/framework/sampling/poisson.hpp>

#include <string>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/random/coins.hpp>
#include <ripieno/framework/sampling/dataset.hpp>

namespace ripieno {

namespace {

const Shard& checked_against(const PrivacyPlan& plan, const Shard& shard) {
  const std::int64_t held = shard.dataset->num_examples();
  if (held != plan.num_examples()) {
    throw UsageError(
        "the plan is for " + std::to_string(plan.num_examples()) + " examples, the dataset has " + std::to_string(held),
        "the sample rate would not be the planned one", "make the plan from the dataset's own number");
  }
  return shard;
}

}  // namespace

PoissonSampler::PoissonSampler(IdRange range, PoissonOptions options)
    : range_(range),
      sample_rate_(SampleRate(options.sample_rate).value()),
      n_steps_(options.n_steps),
      key_(fold_in(options.key, "poisson")) {
  if (range_.begin < 0 || range_.end < range_.begin) throw UsageError("a range of ids must have 0 <= begin <= end");
  if (n_steps_ < 0) throw UsageError("sampling of " + std::to_string(n_steps_) + " steps");
}

PoissonSampler::PoissonSampler(const Shard& shard, PoissonOptions options)
    : PoissonSampler(shard.range, std::move(options)) {}

PoissonSampler::PoissonSampler(const Shard& shard, const PrivacyPlan& plan, const Key& key)
    : PoissonSampler(checked_against(plan, shard),
                     {.sample_rate = plan.sample_rate(), .n_steps = plan.steps(), .key = key}) {}

std::vector<std::int64_t> PoissonSampler::ids(std::int64_t step) const {
  if (step < 0 || step >= n_steps_) {
    throw UsageError("no step " + std::to_string(step),
                     "the sampler was made for " + std::to_string(n_steps_) + " steps");
  }
  return ids_with_heads(key_, static_cast<std::uint64_t>(step), range_.begin, range_.end, sample_rate_);
}

}  // namespace ripieno
