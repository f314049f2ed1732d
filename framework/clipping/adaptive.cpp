#include <algorithm>
#include <array>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/clipping_plan.hpp>
#include <ripieno/framework/clipping/adaptive.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/comm/rank_texts.hpp>
#include <ripieno/framework/core/portable_math.hpp>
#include <ripieno/framework/random/normal.hpp>

namespace ripieno {
namespace {

double standard_normal(const Key& key, std::int64_t step, std::size_t group) {
  double deviate = 0;
  fill_normal(std::span(&deviate, 1), key, static_cast<std::uint64_t>(step), group, 1.0);
  return deviate;
}

double rounded_to(double grid, double value) { return std::nearbyint(value / grid) * grid; }

void append(std::string& bytes, const auto& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// All that ranks must have in common.
std::string contract_bytes(const AdaptiveClipState& state) {
  std::string bytes;
  const ThresholdRule& rule = state.rule;
  append(bytes, fingerprint(state.key));
  append(bytes, state.step);
  append(bytes, std::array{rule.target_quantile, rule.learning_rate, rule.clipping_norm_min, rule.clipping_norm_max,
                           rule.fraction_noise_std, rule.expected_batch_size});
  for (const double norm : state.clipping_norms) append(bytes, norm);
  append(bytes, state.recorded.has_value());
  return bytes;
}

/// Collective.
void check_agreement(const AdaptiveClipState& state, const Communicator& communicator) {
  if (same_everywhere(communicator, contract_bytes(state))) return;
  throw UsageError("the ranks' adaptive clipping states differ",
                   "key, rule, step and clipping norms must be equal, and either all or none have counts to add up",
                   "give every rank the same options, and call sync on all of them after each step");
}

}  // namespace

void ThresholdRule::check() const {
  AdaptivePlan{.target_quantile = target_quantile,
               .learning_rate = learning_rate,
               .fraction_noise_std = fraction_noise_std,
               .clipping_norm_min = clipping_norm_min,
               .clipping_norm_max = clipping_norm_max}
      .check();
  if (std::isfinite(expected_batch_size) && expected_batch_size > 0) return;
  throw UsageError("expected_batch_size cannot be " + format_double(expected_batch_size),
                   "it must be finite and positive");
}

double next_threshold(const ThresholdRule& rule, double clipping_norm, std::int64_t num_clipped,
                      std::int64_t batch_size, double normal) {
  constexpr double k_grid = 0x1p-20;  // standard deviations
  const double deviation = rule.count_noise_stddev();
  const double centred = static_cast<double>(num_clipped) - static_cast<double>(batch_size) / 2;
  const double count = rounded_to(k_grid * deviation, std::fma(deviation, normal, centred));
  const double rate = 0.5 + count / rule.expected_batch_size;
  const double next = clipping_norm * portable::exp(rule.learning_rate * (rate - rule.target_quantile));
  return std::clamp(next, rule.clipping_norm_min, rule.clipping_norm_max);
}

AdaptiveClipState renewed(const AdaptiveClipState& state, const ClippedCounts& global) {
  if (global.num_clipped.size() != state.clipping_norms.size())
    throw UsageError("counts of " + std::to_string(global.num_clipped.size()) + " groups for " +
                     std::to_string(state.clipping_norms.size()) + " clipping norms");
  AdaptiveClipState next = state;
  next.recorded.reset();
  ++next.step;
  for (std::size_t group = 0; group < next.clipping_norms.size(); ++group)
    next.clipping_norms[group] = next_threshold(state.rule, state.clipping_norms[group], global.num_clipped[group],
                                                global.batch_size, standard_normal(state.key, state.step, group));
  return next;
}

AdaptiveClipState sync_state(const AdaptiveClipState& state, const Communicator& communicator) {
  const OperationScope scope("sync of the adaptive clipping state");
  check_agreement(state, communicator);
  if (!state.recorded) return state;
  std::vector<std::int64_t> counts = state.recorded->num_clipped;
  counts.push_back(state.recorded->batch_size);
  communicator.allreduce_sum(std::span<std::int64_t>(counts));
  ClippedCounts global;
  global.batch_size = counts.back();
  counts.pop_back();
  global.num_clipped = std::move(counts);
  return renewed(state, global);
}

}  // namespace ripieno
