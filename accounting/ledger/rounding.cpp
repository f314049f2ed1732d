#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/binomial.hpp>
#include <ripieno/accounting/ledger/rounding.hpp>

namespace ripieno {
namespace {

constexpr double k_unit_single = 0x1p-24;
constexpr double k_unit_double = 0x1p-53;
constexpr double k_underflow_norm = 0x1p-129;     // 2^-150 in each of 2^42 coordinates
constexpr double k_evaluation_slack = 1 + 1e-12;  // the formulas themselves are evaluated in double
constexpr double k_largest_unit_sum = 0x1p50;     // in lattice steps: rounding to them stays exact and fast
constexpr int k_lattice_bits = 22;
constexpr std::int64_t k_comfortable_microbatch = 32;  // below it, engines lose more than a wide wire costs

double gamma(std::int64_t terms, double unit) {
  const double product = static_cast<double>(terms) * unit;
  return product < 1 ? product / (1 - product) : std::numeric_limits<double>::infinity();
}

/// The number of ranks that rho is proven for: the same for 1 to 4 ranks, for 5 to 16, and so on, and for anything up
/// to 65536 with a wide wire, which hardly notices. Runs of that many ranks then have the same noise to the bit.
std::int64_t provided_ranks(const RoundingProblem& problem, const SumLayout& layout) {
  std::int64_t ranks = layout.wide_wire ? 65536 : 4;
  while (ranks < problem.world_size) ranks *= 4;
  return ranks;
}

std::int64_t num_blocks(std::int64_t num_examples, std::int64_t block_size) {
  return (num_examples + block_size - 1) / block_size;
}

/// log of the bound on Pr[some block draws more than `microbatch`] in one step.
double log_block_tail(const RoundingProblem& problem, std::int64_t microbatch, std::int64_t block_size) {
  if (block_size <= microbatch) return -std::numeric_limits<double>::infinity();
  return std::log(static_cast<double>(num_blocks(problem.num_examples, block_size))) +
         log_binomial_tail_bound(block_size + problem.uneven_ids, problem.sample_rate, microbatch + 1);
}

std::int64_t largest_block(const RoundingProblem& problem, std::int64_t microbatch, double log_target) {
  if (problem.num_examples <= microbatch) return problem.num_examples;
  std::int64_t low = microbatch;  // such a block cannot draw more
  std::int64_t high = problem.num_examples + 1;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (log_block_tail(problem, microbatch, middle) <= log_target ? low : high) = middle;
  }
  return low;
}

/// Blocks of a reproducible sum: enough to share out to ranks, and where the batch allows it of 16 examples a step, as
/// smaller microbatches cost more.
std::int64_t least_blocks(const RoundingProblem& problem) {
  const double batch = problem.sample_rate * static_cast<double>(problem.num_examples);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(batch) / 16, 16, 64);
}

/// The smallest microbatch that still holds such a block's draw, at most `microbatch`: rho grows with its square.
std::int64_t smallest_microbatch(const RoundingProblem& problem, std::int64_t microbatch, std::int64_t block_size,
                                 double log_target) {
  std::int64_t low = 0;
  std::int64_t high = std::min(microbatch, block_size);  // such a one holds any draw that `microbatch` holds
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (log_block_tail(problem, middle, block_size) <= log_target ? high : low) = middle;
  }
  return high;
}

SumLayout layout_for(const RoundingProblem& problem, std::int64_t microbatch, bool wide_wire, double tail_target) {
  // Half of the tail for blocks that draw too much, half for steps that do.
  const double log_target = std::log(tail_target / 2) - std::log(static_cast<double>(problem.steps)) - 1e-9;
  SumLayout layout{
      .microbatch = microbatch,
      .block_size = largest_block(problem, microbatch, log_target),
      .max_draw = std::min(problem.num_examples, binomial_upper_quantile(problem.num_examples + problem.uneven_ids,
                                                                         problem.sample_rate, log_target)),
      .wide_wire = wide_wire};
  if (problem.reduction == Reduction::reproducible) {
    layout.block_size =
        std::min(layout.block_size, std::max<std::int64_t>(1, problem.num_examples / least_blocks(problem)));
    layout.microbatch = smallest_microbatch(problem, microbatch, layout.block_size, log_target);
    layout.lattice_step = lattice_step(problem.noise_multiplier, problem.clipping_norm);
  }
  return layout;
}

/// What lattice_step / norm is at most; at least it is half of that.
double largest_step_over_norm(const RoundingProblem& problem) {
  return std::ldexp(problem.noise_multiplier > 0 ? problem.noise_multiplier : 1, -k_lattice_bits);
}

double lattice_rho(const RoundingProblem& problem, const SumLayout& layout) {
  const double inside = gamma(layout.microbatch, k_unit_single) * static_cast<double>(layout.microbatch);
  const double step_over_norm =
      problem.norm_changes ? largest_step_over_norm(problem) : layout.lattice_step / problem.clipping_norm;
  const double rounding = step_over_norm * std::sqrt(static_cast<double>(problem.num_parameters));
  return (2 * inside + rounding) * k_evaluation_slack;
}

void check_lattice(const RoundingProblem& problem, const SumLayout& layout) {
  const double norm_over_step =
      problem.norm_changes ? 2 / largest_step_over_norm(problem) : problem.clipping_norm / layout.lattice_step;
  const double largest = 2 * static_cast<double>(layout.max_draw) * norm_over_step;
  if (largest <= k_largest_unit_sum) return;
  throw UsageError("a reproducible sum of " + std::to_string(layout.max_draw) + " examples may overflow",
                   "noise multiplier " + format_double(problem.noise_multiplier) + " makes its steps too small",
                   "use more noise, or --reduction fast");
}

std::vector<std::string> explain(const RoundingProblem& problem, const SumLayout& asked, const SumLayout& taken) {
  std::vector<std::string> notes;
  const std::string reason =
      "otherwise the rounding of sums would need rho = " + format_rounded_up(rounding_rho(problem, asked), 3) +
      ", more than " + format_double(k_max_rho);
  if (problem.reduction == Reduction::fast && taken.microbatch < asked.microbatch) {
    notes.push_back("Microbatches hold " + std::to_string(taken.microbatch) + " examples instead of " +
                    std::to_string(asked.microbatch) + ": " + reason + ".");
  }
  if (taken.wide_wire) notes.push_back("Gradient sums are reduced in float64: " + reason + ".");
  return notes;
}

}  // namespace

double lattice_step(double noise_multiplier, double clipping_norm) {
  const double scale = noise_multiplier > 0 ? noise_multiplier * clipping_norm : clipping_norm;
  return std::ldexp(1.0, std::ilogb(scale) - k_lattice_bits);
}

double rounding_rho(const RoundingProblem& problem, const SumLayout& layout) {
  if (problem.reduction == Reduction::reproducible) return lattice_rho(problem, layout);
  const std::int64_t ranks = provided_ranks(problem, layout);
  const double inside_unit = gamma(layout.microbatch, k_unit_single);
  const double inside = inside_unit * static_cast<double>(layout.microbatch);
  const double magnitude = static_cast<double>(layout.max_draw) * (1 + inside_unit);
  const std::int64_t terms = std::min(layout.max_draw, num_blocks(problem.num_examples, layout.block_size) + ranks);
  const double across_unit = gamma(terms, k_unit_double);
  const double wire_unit = gamma(ranks + 1, layout.wide_wire ? k_unit_double : k_unit_single);
  const double underflow = static_cast<double>(ranks) * k_underflow_norm / problem.clipping_norm;
  const double error = inside + magnitude * (across_unit + wire_unit * (1 + across_unit)) + underflow;
  return 2 * error * k_evaluation_slack;
}

double rounding_tail(const RoundingProblem& problem, const SumLayout& layout) {
  const double blocks = std::exp(log_block_tail(problem, layout.microbatch, layout.block_size));
  const double draws = layout.max_draw >= problem.num_examples
                           ? 0
                           : std::exp(log_binomial_tail_bound(problem.num_examples + problem.uneven_ids,
                                                              problem.sample_rate, layout.max_draw + 1));
  return static_cast<double>(problem.steps) * (blocks + draws) * k_evaluation_slack;
}

ChosenLayout choose_layout(const RoundingProblem& problem, double tail_target) {
  const std::int64_t largest = std::min(problem.max_microbatch, problem.num_examples);
  const SumLayout asked = layout_for(problem, largest, false, tail_target);
  if (static_cast<double>(asked.max_draw) * problem.clipping_norm > 1e38) {
    throw UsageError("clipping norm " + format_double(problem.clipping_norm) + " is too large",
                     "a float32 sum of " + std::to_string(asked.max_draw) + " such contributions may overflow");
  }
  if (asked.lattice_step > 0) check_lattice(problem, asked);
  for (const bool wide_wire : {false, true}) {
    if (wide_wire && problem.reduction == Reduction::reproducible) break;
    const std::int64_t smallest = wide_wire ? 1 : std::min(largest, k_comfortable_microbatch);
    for (std::int64_t microbatch = largest; microbatch >= smallest; microbatch /= 2) {
      const SumLayout layout = layout_for(problem, microbatch, wide_wire, tail_target);
      if (rounding_rho(problem, layout) <= k_max_rho) return {layout, explain(problem, asked, layout)};
    }
  }
  throw UsageError("no way of summing keeps rho at or below " + format_double(k_max_rho),
                   "clipping norm " + format_double(problem.clipping_norm) + ", draws of up to " +
                       std::to_string(asked.max_draw) + " examples",
                   problem.reduction == Reduction::reproducible ? "use less noise a step, or --reduction fast"
                                                                : "use a smaller batch or a larger clipping norm");
}

}  // namespace ripieno
