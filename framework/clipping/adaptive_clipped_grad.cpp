#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/engine/mechanisms.hpp>
#include <ripieno/framework/clipping/adaptive_clipped_grad.hpp>
#include <ripieno/framework/distributed/context.hpp>

namespace ripieno {
namespace {

// No noise multiplier below this is worth training with, so a count that it cannot pay for is a mistake.
constexpr double k_least_useful_multiplier = 0.1;

accounting::ClippedCount count_of(const AdaptiveClipState& state) {
  return {.noise_stddev = state.rule.count_noise_stddev(),
          .groups = static_cast<std::int64_t>(state.clipping_norms.size())};
}

void check_payable(const AdaptiveClipState& state) {
  try {
    (void)adaptive_noise_multiplier(k_least_useful_multiplier, state);
  } catch (const UsageError&) {
    throw UsageError("fraction_noise_std cannot be " + format_double(state.rule.fraction_noise_std),
                     "with expected_batch_size " + format_double(state.rule.expected_batch_size) +
                         " the noise on the count is so small that no noise multiplier can pay for it",
                     "raise it, or the expected batch size");
  }
}

ThresholdRule rule_of(const AdaptiveClippingOptions& options) {
  const double normalize_by = options.clipping.normalize_by;
  if (options.expected_batch_size == 0 && normalize_by == 1)
    throw UsageError("expected_batch_size is missing", "the clipped fraction is taken of a public number",
                     "set .expected_batch_size, or .clipping.normalize_by");
  return {.target_quantile = options.target_quantile,
          .learning_rate = options.learning_rate,
          .clipping_norm_min = options.clipping_norm_min,
          .clipping_norm_max = options.clipping_norm_max,
          .fraction_noise_std = options.fraction_noise_std,
          .expected_batch_size = options.expected_batch_size != 0 ? options.expected_batch_size : normalize_by};
}

void check_initial_norm(double norm) {
  if (std::isfinite(norm) && norm > 0) return;
  throw UsageError("initial_clipping_norm cannot be " + format_double(norm), "it must be finite and positive");
}

}  // namespace

double adaptive_noise_multiplier(double noise_multiplier, const AdaptiveClipState& state) {
  return accounting::gradient_noise_multiplier(noise_multiplier, count_of(state));
}

namespace detail {

AdaptiveClipState initial_state(const AdaptiveClippingOptions& options) {
  if (!options.key) throw UsageError("adaptive_clipped_grad has no key", {}, "set .key, as from runtime.run_keys()");
  if (options.clipping.clipping_norm != 0)
    throw UsageError("clipping_norm does not apply to adaptive clipping", {}, "set .initial_clipping_norm");
  AdaptiveClipState state{.rule = rule_of(options),
                          .key = fold_in(*options.key, "adaptive clipping"),
                          .clipping_norms = {options.initial_clipping_norm}};
  state.rule.check();
  if (options.clipping.per_group) state.clipping_norms = options.clipping.per_group->ordered_values();
  for (const double norm : state.clipping_norms) check_initial_norm(norm);
  check_payable(state);
  check_options(at_state(options.clipping, state));
  return state;
}

AdaptiveClipState ready_to_clip(const AdaptiveClipState& state) {
  return ready_to_clip(state, current_communicator().size());
}

AdaptiveClipState ready_to_clip(const AdaptiveClipState& state, int world_size) {
  if (!state.recorded) return state;
  if (world_size > 1)
    throw UsageError("the adaptive clipping state was not synchronised after the last step",
                     "each rank has counted its own examples only", "call state = sync(state) on every rank");
  return renewed(state, *state.recorded);
}

ClippingOptions at_state(const ClippingOptions& options, const AdaptiveClipState& state) {
  ClippingOptions adapted = options;
  if (adapted.per_group) {
    adapted.per_group = adapted.per_group->with_values(state.clipping_norms);
  } else {
    adapted.clipping_norm = state.clipping_norms.front();
  }
  return adapted;
}

AdaptiveClipState recording(AdaptiveClipState state, const ClippedSum& counts) {
  state.recorded = ClippedCounts{.num_clipped = counts.group_num_clipped, .batch_size = counts.batch_size};
  return state;
}

}  // namespace detail
}  // namespace ripieno
