#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <ripieno/framework/clipping/coefficients.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <set>
#include <string>

namespace ripieno {
namespace {

void check_positive(double value, const char* field) {
  if (std::isfinite(value) && value > 0) return;
  throw UsageError(std::string(field) + " cannot be " + format_double(value), "it must be finite and positive");
}

void check_positions(const std::vector<int>& positions, const char* field, std::set<int>& taken) {
  if (positions.empty()) throw UsageError(std::string(field) + " is empty");
  for (const int position : positions) {
    if (position < 0)
      throw UsageError(std::string(field) + " holds " + std::to_string(position), "positions count from 0");
    if (!taken.insert(position).second)
      throw UsageError(std::string(field) + " holds " + std::to_string(position),
                       "a position appears once in argnums and batch_argnums together");
  }
}

void check_cuts(std::span<const std::int64_t> cuts, std::int64_t n) {
  const bool bordered = !cuts.empty() && cuts.front() == 0 && cuts.back() == n;
  if (!bordered || !std::is_sorted(cuts.begin(), cuts.end()))
    throw UsageError("the microbatch cuts do not run from 0 up to the batch size " + std::to_string(n));
}

/// Adds up microbatch sums in float64, rounded once; a batch of one microbatch costs no buffer for that.
class Accumulator {
 public:
  /// A microbatch that others follow.
  void add(const std::vector<at::Tensor>& leaves) {
    if (totals_.empty()) {
      for (const at::Tensor& leaf : leaves)
        totals_.push_back(leaf.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true));
      return;
    }
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) totals_[leaf].add_(leaves[leaf]);
  }

  [[nodiscard]] bool is_empty() const { return totals_.empty(); }

  /// The total of a leaf from the last microbatch's part, written to `out` in its shape, where it may be already.
  void finish(std::size_t leaf, const at::Tensor& last, const at::Tensor& out) {
    if (!is_empty())
      out.copy_(totals_[leaf].add_(last));
    else if (!last.is_same(out))
      out.copy_(last);
  }

 private:
  std::vector<at::Tensor> totals_;
};

/// Sums the last microbatch of a batch into `flat`, whose leaves are told of one after the other.
MicrobatchResult clip_last(ClippingEngine& engine, const LossFn& loss, const PyTree& params,
                           std::span<const at::Tensor> microbatch, const ClippingRule& rule, Accumulator& total,
                           const at::Tensor& flat, const OnFinal& on_final) {
  const std::vector<at::Tensor> places = unflatten(params, flat).leaves();
  const bool one_dtype = std::ranges::all_of(
      params.leaves(), [&](const at::Tensor& leaf) { return leaf.scalar_type() == flat.scalar_type(); });
  const bool made_in_place = total.is_empty() && one_dtype;
  std::int64_t size = 0;
  const auto on_leaf = [&](std::size_t leaf, const at::Tensor& sum) {
    total.finish(leaf, sum, places[leaf]);
    size += sum.numel();
    on_final(flat, size);
  };
  return engine.clip_by_leaf(loss, params, microbatch, rule, on_leaf,
                             made_in_place ? std::span<const at::Tensor>(places) : std::span<const at::Tensor>());
}

/// Borders of the microbatches that hold an example.
std::vector<std::int64_t> without_empty(std::span<const std::int64_t> cuts) {
  std::vector<std::int64_t> borders(cuts.begin(), cuts.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  return borders;
}

/// What one microbatch adds to the counts: clipped examples of each group, those clipped in some group, those that are
/// not finite, and the loss of the others; float64, where the engine left its results.
at::Tensor counts_of(const MicrobatchResult& result, const ClippingRule& rule) {
  std::vector<at::Tensor> counted;
  for (std::size_t group = 0; group < rule.num_groups(); ++group)
    counted.push_back(result.group_norms[group].gt(rule.clipping_norm(group)).logical_and(result.finite));
  counted.push_back(counted.size() == 1 ? counted.front() : at::stack(counted).any(0));
  counted.push_back(result.finite.logical_not());
  const at::Tensor losses = result.losses.masked_fill(counted.back(), 0);
  return at::cat({at::stack(counted).to(at::kDouble), losses.unsqueeze(0)}).sum(1);
}

/// Takes the counts of all microbatches at once: on a device, reading each would wait for it.
void take_counts(const std::vector<at::Tensor>& counts, const ClippingRule& rule, ClippedSum& sum) {
  const at::Tensor total = at::stack(counts).sum(0).cpu();
  const auto* number = total.const_data_ptr<double>();
  for (std::size_t group = 0; group < rule.num_groups(); ++group) {
    sum.group_num_clipped[group] = static_cast<std::int64_t>(*number++);
  }
  sum.num_clipped = static_cast<std::int64_t>(*number++);
  sum.num_non_finite = static_cast<std::int64_t>(*number++);
  sum.loss_sum = *number;
}

}  // namespace

void check_options(const ClippingOptions& options) {
  if (options.per_group && options.clipping_norm != 0)
    throw UsageError("clipping_norm and per_group are both given", "one of them bounds the gradient");
  if (!options.per_group) check_positive(options.clipping_norm, "clipping_norm");
  if (options.automatic_gamma) check_positive(*options.automatic_gamma, "automatic_gamma");
  if (options.compute_dtype && !c10::isFloatingType(*options.compute_dtype))
    throw UsageError(std::string("compute_dtype cannot be ") + at::toString(*options.compute_dtype),
                     "norms are computed in a floating point type");
  if (options.automatic_gamma && options.compute_dtype)
    throw UsageError("compute_dtype does not apply to automatic clipping", {}, "leave it out");
  check_positive(options.normalize_by, "normalize_by");
  std::set<int> taken;
  check_positions(options.argnums, "argnums", taken);
  check_positions(options.batch_argnums, "batch_argnums", taken);
  if (options.microbatch_size < 0)
    throw UsageError("microbatch_size cannot be " + std::to_string(options.microbatch_size),
                     "it must be positive, or 0 for the whole batch");
  if (options.memory_budget <= 0)
    throw UsageError("memory_budget cannot be " + std::to_string(options.memory_budget), "it must be positive");
  if (options.sum_dtype != at::kFloat && options.sum_dtype != at::kDouble)
    throw UsageError(std::string("sum_dtype cannot be ") + at::toString(options.sum_dtype),
                     "a sum kept below float32 moves by more than one example's bound when one example is added",
                     "use kFloat or kDouble, and convert after the noise");
}

void add_counts(const ClippedSum& part, ClippedSum& total) {
  total.batch_size += part.batch_size;
  total.num_clipped += part.num_clipped;
  total.group_num_clipped.resize(std::max(total.group_num_clipped.size(), part.group_num_clipped.size()));
  for (std::size_t group = 0; group < part.group_num_clipped.size(); ++group) {
    total.group_num_clipped[group] += part.group_num_clipped[group];
  }
  total.num_non_finite += part.num_non_finite;
  total.loss_sum += part.loss_sum;
}

std::vector<std::int64_t> microbatch_cuts(std::int64_t n, std::int64_t microbatch_size) {
  const std::int64_t size = microbatch_size > 0 ? microbatch_size : std::max<std::int64_t>(n, 1);
  std::vector<std::int64_t> cuts;
  for (std::int64_t begin = 0; begin < n; begin += size) cuts.push_back(begin);
  cuts.push_back(n);
  return cuts;
}

ClippingRule rule_of(const ClippingOptions& options, const PyTree& params) {
  const ClippingRule rule =
      options.per_group ? ClippingRule(options.per_group->ordered_values(), options.per_group->group_of_leaves(params))
                        : ClippingRule(options.clipping_norm);
  return options.automatic_gamma ? rule.automatic(*options.automatic_gamma) : rule;
}

ClippedSum clipped_sum(ClippingEngine& engine, const LossFn& loss, const PyTree& params,
                       std::span<const at::Tensor> batch, std::span<const std::int64_t> cuts,
                       const ClippingOptions& options) {
  check_options(options);
  return clipped_sum(engine, loss, params, batch, cuts, rule_of(options, params), options.sum_dtype);
}

ClippedSum clipped_sum(ClippingEngine& engine, const LossFn& loss, const PyTree& params,
                       std::span<const at::Tensor> batch, std::span<const std::int64_t> cuts, const ClippingRule& rule,
                       at::ScalarType sum_dtype, const OnFinal& on_final) {
  rule.check(params.num_leaves());
  const std::int64_t n = check_batch(batch);
  check_cuts(cuts, n);
  const at::ScalarType dtype = stored_dtype(params) == at::kDouble ? at::kDouble : sum_dtype;

  ClippedSum sum;
  sum.batch_size = n;
  sum.group_num_clipped.resize(rule.num_groups());
  sum.flat = at::empty({params.numel()}, batch[0].options().dtype(dtype).requires_grad(false));
  if (n == 0) {
    on_final(sum.flat.zero_(), sum.flat.numel());
    return sum;
  }
  const std::vector<std::int64_t> borders = without_empty(cuts);
  Accumulator total;
  std::vector<at::Tensor> counts;
  for (std::size_t k = 0; k + 1 < borders.size(); ++k) {
    std::vector<at::Tensor> microbatch;
    for (const at::Tensor& tensor : batch) {
      microbatch.push_back(tensor.narrow(0, borders[k], borders[k + 1] - borders[k]));
    }
    const bool last = k + 2 == borders.size();
    const MicrobatchResult result = last ? clip_last(engine, loss, params, microbatch, rule, total, sum.flat, on_final)
                                         : engine.clip(loss, params, microbatch, rule);
    counts.push_back(counts_of(result, rule));
    if (!last) total.add(result.sum);
  }
  take_counts(counts, rule, sum);
  return sum;
}

}  // namespace ripieno
