#include <ripieno/framework/sampling/poisson.hpp>

#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/random/coins.hpp>

namespace ripieno {

PoissonSampler::PoissonSampler(IdRange range, PoissonOptions options)
    : Sampler(range, options.n_steps),
      sample_rate_(SampleRate(options.sample_rate).value()),
      key_(fold_in(options.key, "poisson")) {}

PoissonSampler::PoissonSampler(const Shard& shard, PoissonOptions options)
    : PoissonSampler(shard.range, std::move(options)) {}

PoissonSampler::PoissonSampler(const Shard& shard, const PrivacyPlan& plan, const Key& key)
    : PoissonSampler(shard, {.sample_rate = plan.sample_rate(), .n_steps = plan.steps(), .key = key}) {
  check_same_size(plan, shard);
}

std::vector<std::int64_t> PoissonSampler::draw(std::int64_t step) const {
  return ids_with_heads(key_, static_cast<std::uint64_t>(step), range().begin, range().end, sample_rate_);
}

}  // namespace ripieno
