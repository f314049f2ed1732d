#include <ripieno/framework/sampling/samplers.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/random/coins.hpp>
#include <ripieno/framework/sampling/dataset.hpp>
#include <ripieno/framework/sampling/poisson.hpp>

namespace ripieno {
namespace {

using Ids = std::vector<std::int64_t>;

/// Ids whose throw of a die with `sides` sides shows `side`: the coins of one stream tell them all apart, each id
/// having exactly one side. Chances are 1 / sides to within 2^-53.
Ids ids_with_side(const Key& key, std::uint64_t stream, const IdRange& range, std::int64_t side, std::int64_t sides) {
  const auto all = static_cast<double>(sides);
  const Ids up_to = ids_with_heads(key, stream, range.begin, range.end, static_cast<double>(side + 1) / all);
  const Ids before = ids_with_heads(key, stream, range.begin, range.end, static_cast<double>(side) / all);
  Ids ids;
  std::ranges::set_difference(up_to, before, std::back_inserter(ids));
  return ids;
}

/// The first id at or after `from` that equals `rest` modulo `modulus`.
std::int64_t first_equal(std::int64_t from, std::int64_t rest, std::int64_t modulus) {
  return from + ((rest - from) % modulus + modulus) % modulus;
}

}  // namespace

TruncatedPoissonSampler::TruncatedPoissonSampler(IdRange range, std::int64_t num_examples, double sample_rate,
                                                 std::int64_t max_batch, std::int64_t n_steps, const Key& key)
    : Sampler(range, n_steps),
      num_examples_(num_examples),
      sample_rate_(sample_rate),
      max_batch_(max_batch),
      coins_(fold_in(key, "poisson")),
      ranks_(fold_in(key, "kept of a large draw")) {}

Ids TruncatedPoissonSampler::draw(std::int64_t step) const {
  const auto stream = static_cast<std::uint64_t>(step);
  Ids all = ids_with_heads(coins_, stream, 0, num_examples_, sample_rate_);
  if (std::ssize(all) > max_batch_) {
    // Those with the smallest random words stay.
    const std::vector<std::uint64_t> words = random_words(ranks_, stream, all);
    std::vector<std::pair<std::uint64_t, std::int64_t>> order;
    order.reserve(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) order.emplace_back(words[i], all[i]);
    const auto kept = order.begin() + max_batch_;
    std::ranges::nth_element(order, kept);
    all.clear();
    for (auto it = order.begin(); it != kept; ++it) all.push_back(it->second);
    std::ranges::sort(all);
  }
  return {std::ranges::lower_bound(all, range().begin), std::ranges::lower_bound(all, range().end)};
}

CyclicPoissonSampler::CyclicPoissonSampler(IdRange range, std::int64_t parts, double rate, std::int64_t n_steps,
                                           const Key& key)
    : Sampler(range, n_steps), parts_(parts), rate_(rate), key_(fold_in(key, "cyclic poisson")) {
  if (parts < 1) throw UsageError("cyclic sampling of " + std::to_string(parts) + " parts", "must be 1 or more");
}

Ids CyclicPoissonSampler::draw(std::int64_t step) const {
  // Member j of a part is id rest + j parts: coins are thrown for members only.
  const std::int64_t rest = step % parts_;
  const std::int64_t first = first_equal(range().begin, rest, parts_) / parts_;
  const std::int64_t end = first_equal(range().end, rest, parts_) / parts_;
  Ids ids = ids_with_heads(key_, static_cast<std::uint64_t>(step), first, std::max(first, end), rate_);
  for (std::int64_t& id : ids) id = rest + id * parts_;
  return ids;
}

BallsInBinsSampler::BallsInBinsSampler(IdRange range, std::int64_t bins, std::int64_t n_steps, const Key& key)
    : Sampler(range, n_steps), bins_(bins), key_(fold_in(key, "balls in bins")) {
  if (bins < 1) throw UsageError("sampling from " + std::to_string(bins) + " bins", "must be 1 or more");
}

Ids BallsInBinsSampler::draw(std::int64_t step) const { return ids_with_side(key_, 0, range(), step % bins_, bins_); }

KOutOfTSampler::KOutOfTSampler(IdRange range, SamplingSchedule schedule, const Key& key)
    : Sampler(range, schedule.steps()), schedule_(std::move(schedule)), key_(fold_in(key, "k out of t")) {}

Ids KOutOfTSampler::draw(std::int64_t step) const {
  std::int64_t block = 0;
  while (schedule_.block_begin(block + 1) <= step) ++block;
  const std::int64_t begin = schedule_.block_begin(block), end = schedule_.block_begin(block + 1);
  return ids_with_side(key_, static_cast<std::uint64_t>(block), range(), step - begin, end - begin);
}

/// How far the draws have come, and who rests.
struct MinSeparatedSampler::Progress {
  std::mutex mutex;
  std::int64_t next_step = 0;
  std::vector<std::int64_t> free_from;  // the step from which on an example may be drawn again
  std::map<std::int64_t, Ids> recent;   // draws of the last steps, as they may be asked for again
};

MinSeparatedSampler::MinSeparatedSampler(IdRange range, std::int64_t separation, double rate, std::int64_t n_steps,
                                         const Key& key)
    : Sampler(range, n_steps),
      separation_(separation),
      rate_(rate),
      coins_(fold_in(key, "min separated")),
      starts_(fold_in(key, "rested at the start")),
      progress_(std::make_unique<Progress>()) {
  if (separation < 1) throw UsageError("a separation of " + std::to_string(separation), "must be 1 or more");
}

MinSeparatedSampler::~MinSeparatedSampler() = default;

Ids MinSeparatedSampler::draw(std::int64_t step) const {
  constexpr std::size_t k_remembered = 4;
  const std::scoped_lock lock(progress_->mutex);
  Progress& now = *progress_;
  if (const auto found = now.recent.find(step); found != now.recent.end()) return found->second;
  if (step < now.next_step || now.free_from.empty()) {
    now.next_step = 0;
    now.recent.clear();
    now.free_from.assign(static_cast<std::size_t>(range().size()), 0);
    // Free with chance 1 / (1 + (separation - 1) rate); else with one of separation - 1 steps of rest left, each as
    // likely.
    const double resting = 1 / (1 / rate_ + static_cast<double>(separation_ - 1));
    for (std::int64_t left = 1; left < separation_; ++left) {
      const auto up_to = static_cast<double>(left);
      Ids ids;
      std::ranges::set_difference(ids_with_heads(starts_, 0, range().begin, range().end, up_to * resting),
                                  ids_with_heads(starts_, 0, range().begin, range().end, (up_to - 1) * resting),
                                  std::back_inserter(ids));
      for (const std::int64_t id : ids) now.free_from[static_cast<std::size_t>(id - range().begin)] = left;
    }
  }
  for (; now.next_step <= step; ++now.next_step) {
    Ids ids = ids_with_heads(coins_, static_cast<std::uint64_t>(now.next_step), range().begin, range().end, rate_);
    std::erase_if(ids, [&](std::int64_t id) {
      std::int64_t& free_from = now.free_from[static_cast<std::size_t>(id - range().begin)];
      if (now.next_step < free_from) return true;
      free_from = now.next_step + separation_;
      return false;
    });
    now.recent[now.next_step] = std::move(ids);
    if (now.recent.size() > k_remembered) now.recent.erase(now.recent.begin());
  }
  return now.recent.at(step);
}

SequentialSampler::SequentialSampler(IdRange range, std::int64_t period, std::int64_t batch, std::int64_t n_steps)
    : Sampler(range, n_steps), period_(period), batch_(batch) {
  if (period < 1 || batch < 0) {
    throw UsageError("a fixed order of " + std::to_string(period) + " batches of " + std::to_string(batch));
  }
}

Ids SequentialSampler::draw(std::int64_t step) const {
  Ids ids;
  const std::int64_t end = std::min(range().end, period_ * batch_);
  for (std::int64_t id = first_equal(range().begin, step % period_, period_); id < end; id += period_) {
    ids.push_back(id);
  }
  return ids;
}

std::shared_ptr<const Sampler> make_sampler(const Shard& shard, const PrivacyPlan& plan, const Key& key) {
  check_same_size(plan, shard);
  const SamplingSchedule schedule = plan.pairing().sampling;
  const SamplerPlan& sampler = schedule.sampler();
  const IdRange& range = shard.range;
  const std::int64_t steps = plan.steps();
  switch (sampler.kind) {
    case SamplerKind::poisson:
      return std::make_shared<PoissonSampler>(shard, plan, key);
    case SamplerKind::truncated_poisson:
      return std::make_shared<TruncatedPoissonSampler>(range, plan.num_examples(), schedule.draw_rate(),
                                                       sampler.max_batch, steps, key);
    case SamplerKind::cyclic_poisson:
      return std::make_shared<CyclicPoissonSampler>(range, sampler.parts, schedule.draw_rate(), steps, key);
    case SamplerKind::balls_in_bins:
      return std::make_shared<BallsInBinsSampler>(range, schedule.period(), steps, key);
    case SamplerKind::min_separated:
      return std::make_shared<MinSeparatedSampler>(range, sampler.separation, schedule.draw_rate(), steps, key);
    case SamplerKind::k_out_of_t:
      return std::make_shared<KOutOfTSampler>(range, schedule, key);
    case SamplerKind::sequential:
      return std::make_shared<SequentialSampler>(range, schedule.period(),
                                                 static_cast<std::int64_t>(plan.expected_batch()), steps);
  }
  throw UsageError("a plan has no sampler");
}

}  // namespace ripieno
