#include <ripieno/framework/sampling/sampler.hpp>

#include <string>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/sampling/dataset.hpp>

namespace ripieno {

void check_same_size(const PrivacyPlan& plan, const Shard& shard) {
  const std::int64_t held = shard.dataset->num_examples();
  if (held == plan.num_examples()) return;
  throw UsageError(
      "the plan is for " + std::to_string(plan.num_examples()) + " examples, the dataset has " + std::to_string(held),
      "the sample rate would not be the planned one", "make the plan from the dataset's own number");
}

Sampler::Sampler(IdRange range, std::int64_t n_steps) : range_(range), n_steps_(n_steps) {
  if (range_.begin < 0 || range_.end < range_.begin) throw UsageError("a range of ids must have 0 <= begin <= end");
  if (n_steps_ < 0) throw UsageError("sampling of " + std::to_string(n_steps_) + " steps");
}

std::vector<std::int64_t> Sampler::ids(std::int64_t step) const {
  if (step < 0 || step >= n_steps_) {
    throw UsageError("no step " + std::to_string(step),
                     "the sampler was made for " + std::to_string(n_steps_) + " steps");
  }
  return draw(step);
}

}  // namespace ripieno
