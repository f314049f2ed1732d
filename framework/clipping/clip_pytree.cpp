#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/clipping/clip_pytree.hpp>

// How the factor s of a group is found so that the stored products keep the bound. Leaf dtype S, compute dtype A
// (squares), multiply dtype M = the wider of both; eps as in Torch (2^-23 for float32).
//
// - Elements are squared in A, after scaling by a power of two that brings the largest near 1, so that none that
// matters
//   under- or overflows. They are added up in float64, long leaves in blocks of 2048.
// - r = (eps(A)/2 + (leaves + T) 2^-53) / 2 bounds the relative error of the norm: each square is rounded once, a sum
//   passes at most leaves + T additions, and a root halves the error.
// - loss covers the roundings of s to M, of the product in M and of the cast to S.
// - s = ratio (1 - loss - 2 r) - (smallest subnormal of S), at most 1. The last term covers an s that is subnormal.
// - The product leaf * s, in M, is cast once to S. A relative error is within loss; where the result is subnormal the
//   error is absolute, so a result that exceeds the exact product is replaced by zero. Not so where M is S and the norm
//   is at least half the root of the number of elements: what was taken off s then covers half a subnormal in each.
//
// Where A is bfloat16 or float16, or narrower than a leaf, elements may vanish or err in it, which r leaves out: there
// the stored result is measured in float64, and computed with the default A where it is too large.
namespace ripieno {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t k_block = 2048;
constexpr double k_unit_double = 0x1p-53;

struct FloatType {
  double epsilon, smallest_normal;
};

FloatType float_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBFloat16:
      return {0x1p-7, 0x1p-126};
    case at::kHalf:
      return {0x1p-10, 0x1p-14};
    case at::kFloat:
      return {0x1p-23, 0x1p-126};
    case at::kDouble:
      return {0x1p-52, 0x1p-1022};
    default:
      throw UsageError(std::string("gradients cannot be clipped in ") + at::toString(dtype),
                       "the dtype must be bfloat16, float16, float32 or float64");
  }
}

/// Of the two the one that holds more; float32 for bfloat16 with float16.
at::ScalarType wider(at::ScalarType a, at::ScalarType b) { return at::promote_types(a, b); }

/// The factors of all groups, or bounds for them.
struct Targets {
  std::vector<double> bounds;
  std::vector<std::size_t> group_of_leaf;
  std::optional<double> gamma;
};

/// Complex leaves as pairs of real ones; refuses what cannot be scaled.
Tensors real_leaves(const PyTree& tree) {
  const std::vector<std::string> paths = tree.paths();
  Tensors leaves = tree.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    at::Tensor& leaf = leaves[i];
    leaf = leaf.detach();
    if (leaf.is_complex()) leaf = at::view_as_real(leaf.resolve_conj());
    if (!leaf.is_floating_point())
      throw UsageError("leaf '" + paths[i] + "' of dtype " + at::toString(leaf.scalar_type()) + " cannot be clipped",
                       "scaled integers are cut to whole numbers, so the first clipped step would erase it",
                       "keep it out of the differentiated arguments");
    (void)float_type(leaf.scalar_type());
  }
  return leaves;
}

/// Puts real leaves back in the place of those of `like`.
PyTree with_real_leaves(const PyTree& like, Tensors leaves) {
  const Tensors originals = like.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (originals[i].is_complex()) leaves[i] = at::view_as_complex(leaves[i].contiguous());
  return like.with_leaves(leaves);
}

at::ScalarType default_compute_dtype(const Tensors& leaves) {
  const bool wide = std::ranges::any_of(leaves, [](const at::Tensor& l) { return l.scalar_type() == at::kDouble; });
  return wide ? at::kDouble : at::kFloat;
}

/// Exponent of a power of two that brings the largest element near 1.
int safe_exponent(const Tensors& leaves) {
  constexpr int k_largest = 1000;
  double largest = 0;
  for (const at::Tensor& leaf : leaves)
    if (leaf.numel() > 0) largest = std::max(largest, leaf.abs().max().item<double>());
  return largest > 0 ? std::clamp(-std::ilogb(largest), -k_largest, k_largest) : 0;
}

double sum_in_blocks(const at::Tensor& squares) {
  const at::Tensor flat = squares.reshape({-1}).to(at::kDouble);
  if (flat.numel() <= 2 * k_block) return flat.sum().item<double>();
  const std::int64_t whole = flat.numel() / k_block * k_block;
  const double blocks = flat.narrow(0, 0, whole).view({-1, k_block}).sum(1).sum().item<double>();
  return blocks + flat.narrow(0, whole, flat.numel() - whole).sum().item<double>();
}

/// A norm as value * 2^-exponent, which float64 may be too narrow for.
struct ScaledNorm {
  double value;
  int exponent;
  [[nodiscard]] double plain() const { return std::ldexp(value, -exponent); }
};

ScaledNorm norm_of(const Tensors& leaves, at::ScalarType compute) {
  const bool scales = compute == at::kFloat || compute == at::kDouble;
  const int exponent = scales ? safe_exponent(leaves) : 0;
  double squares = 0;
  for (const at::Tensor& leaf : leaves) {
    const at::Tensor values =
        exponent == 0 ? leaf.to(compute) : (leaf.to(at::kDouble) * std::ldexp(1.0, exponent)).to(compute);
    squares += sum_in_blocks(values * values);
  }
  return {std::sqrt(squares), exponent};
}

/// bound / norm, or bound / (norm + gamma).
double ratio_of(double bound, const ScaledNorm& norm, std::optional<double> gamma) {
  const double numerator = std::ldexp(std::max(bound, 0.0), norm.exponent);
  return numerator / (norm.value + (gamma ? std::ldexp(*gamma, norm.exponent) : 0));
}

/// r of the head of this file.
double norm_error(const Tensors& leaves, at::ScalarType compute) {
  std::int64_t longest = 0;
  for (const at::Tensor& leaf : leaves) longest = std::max(longest, leaf.numel());
  const std::int64_t terms = longest <= 1             ? 0
                             : longest <= 2 * k_block ? longest
                                                      : k_block + (longest + k_block - 1) / k_block;
  const auto additions = static_cast<double>(static_cast<std::int64_t>(leaves.size()) + terms);
  return (float_type(compute).epsilon / 2 + additions * k_unit_double) / 2;
}

/// leaf * factor in leaf's dtype; unless `may_raise`, nowhere above the exact product in magnitude where that is
/// subnormal.
at::Tensor scaled(const at::Tensor& leaf, double factor, at::ScalarType multiply, bool may_raise) {
  const at::ScalarType stored = leaf.scalar_type();
  const at::Tensor s = at::scalar_tensor(factor, at::kDouble).to(multiply).to(leaf.device());
  const at::Tensor out = (leaf.to(multiply) * s).to(stored);
  if (may_raise) return out;
  // Exact in float64 for narrower types; for float64 the lift keeps the product out of the subnormal range.
  const double lift = stored == at::kDouble ? 0x1p200 : 1;
  const at::Tensor exact = (leaf.to(at::kDouble) * (s.to(at::kDouble) * lift)).abs();
  const at::Tensor magnitude = out.to(at::kDouble).abs();
  const at::Tensor raised = magnitude.le(float_type(stored).smallest_normal).logical_and((magnitude * lift).gt(exact));
  return at::where(raised, at::zeros_like(out), out);
}

double factor_for(at::ScalarType stored, at::ScalarType compute, double ratio, double error, bool automatic) {
  const FloatType type = float_type(stored);
  const at::ScalarType multiply = wider(stored, compute);
  const double loss = multiply == stored ? type.epsilon : type.epsilon / 2 + float_type(multiply).epsilon;
  double factor = ratio * (1 - loss - 2 * error) - type.smallest_normal * type.epsilon;
  if (!automatic) factor = std::min(1.0, factor);
  return std::isfinite(factor) ? std::max(factor, 0.0) : 0;
}

Tensors members(const Tensors& leaves, const std::vector<std::size_t>& group_of_leaf, std::size_t group) {
  Tensors of_group;
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (group_of_leaf[i] == group) of_group.push_back(leaves[i]);
  return of_group;
}

std::int64_t numel_of(const Tensors& leaves) {
  std::int64_t numel = 0;
  for (const at::Tensor& leaf : leaves) numel += leaf.numel();
  return numel;
}

bool fits(const Tensors& leaves, const Targets& targets) {
  for (std::size_t group = 0; group < targets.bounds.size(); ++group)
    if (stored_norm_bound(members(leaves, targets.group_of_leaf, group)) > std::max(targets.bounds[group], 0.0))
      return false;
  return true;
}

struct Scaled {
  Tensors leaves;
  std::vector<double> norms;
};

Scaled scale(const Tensors& leaves, const Targets& targets, at::ScalarType compute) {
  const double error = norm_error(leaves, compute);
  Scaled result{.leaves = leaves, .norms = {}};
  for (std::size_t group = 0; group < targets.bounds.size(); ++group) {
    const Tensors of_group = members(leaves, targets.group_of_leaf, group);
    const ScaledNorm norm = norm_of(of_group, compute);
    const bool is_large = 2 * norm.plain() >= std::sqrt(static_cast<double>(numel_of(of_group)));
    const double ratio = ratio_of(targets.bounds[group], norm, targets.gamma);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (targets.group_of_leaf[i] != group) continue;
      const at::ScalarType stored = leaves[i].scalar_type();
      const double factor = factor_for(stored, compute, ratio, error, targets.gamma.has_value());
      const at::ScalarType multiply = wider(stored, compute);
      result.leaves[i] = scaled(leaves[i], factor, multiply, is_large && multiply == stored);
    }
    result.norms.push_back(norm.plain());
  }
  return result;
}

/// Zero in place of what is not finite; true when there was such an entry.
bool zero_non_finite(Tensors& leaves) {
  bool found = false;
  for (at::Tensor& leaf : leaves) {
    if (leaf.isfinite().all().item<bool>()) continue;
    found = true;
    leaf = leaf.nan_to_num(0, 0, 0);
  }
  return found;
}

/// Whether squares in `compute` may miss more of the elements than r allows.
bool is_coarse(const Tensors& leaves, at::ScalarType compute) {
  if (compute != at::kFloat && compute != at::kDouble) return true;
  return std::ranges::any_of(leaves, [&](const at::Tensor& l) { return wider(l.scalar_type(), compute) != compute; });
}

double norm_over(const std::vector<double>& norms) {
  double norm = 0;
  for (const double group : norms) norm = std::hypot(norm, group);
  return norms.size() == 1 ? norms[0] : norm;
}

ClippedTree clip(const PyTree& tree, const Targets& targets, const ClipOptions& options) {
  const at::NoGradGuard no_grad;
  for (const double bound : targets.bounds)
    if (std::isnan(bound)) throw UsageError("the clipping bound is not a number");
  Tensors leaves = real_leaves(tree);
  const at::ScalarType standard = default_compute_dtype(leaves);
  const at::ScalarType compute = options.compute_dtype.value_or(standard);
  (void)float_type(compute);

  const bool spoiled = zero_non_finite(leaves) && options.non_finite == NonFinite::zero_example;
  Scaled result = scale(leaves, targets, compute);
  if (is_coarse(leaves, compute) && !fits(result.leaves, targets))
    result.leaves = scale(leaves, targets, standard).leaves;
  if (spoiled) std::ranges::fill(result.norms, std::numeric_limits<double>::infinity());
  if (spoiled || options.return_zero)
    for (at::Tensor& leaf : result.leaves) leaf = at::zeros_like(leaf);
  return {.tree = with_real_leaves(tree, std::move(result.leaves)),
          .norm = norm_over(result.norms),
          .group_norms = std::move(result.norms)};
}

Targets one_group(const PyTree& tree, double bound) {
  return {.bounds = {bound}, .group_of_leaf = std::vector<std::size_t>(tree.num_leaves(), 0), .gamma = std::nullopt};
}

Targets of_groups(const PyTree& tree, const PerGroup& bounds) {
  return {.bounds = bounds.ordered_values(), .group_of_leaf = bounds.group_of_leaves(tree), .gamma = std::nullopt};
}

ClippedTree auto_scale(const PyTree& tree, Targets targets, double gamma, const ClipOptions& options) {
  for (const double bound : targets.bounds)
    if (!(std::isfinite(bound) && bound > 0))
      throw UsageError("the bound of automatic clipping cannot be " + format_double(bound),
                       "it must be finite and positive");
  if (!(std::isfinite(gamma) && gamma > 0))
    throw UsageError("gamma cannot be " + format_double(gamma), "it must be finite and positive");
  if (options.compute_dtype) throw UsageError("compute_dtype does not apply to automatic clipping", {}, "leave it out");
  targets.gamma = gamma;
  return clip(tree, targets, options);
}

}  // namespace

double stored_norm(const std::vector<at::Tensor>& leaves) {
  Tensors parts;
  for (const at::Tensor& leaf : leaves) parts.push_back(leaf.is_complex() ? at::view_as_real(leaf) : leaf);
  return norm_of(parts, at::kDouble).plain();
}

double stored_norm_bound(const std::vector<at::Tensor>& leaves) {
  std::int64_t numel = 0;
  for (const at::Tensor& leaf : leaves) numel += leaf.numel() * (leaf.is_complex() ? 2 : 1);
  return stored_norm(leaves) * (1 + static_cast<double>(numel + 8) * k_unit_double);
}

ClippedTree clip_pytree(const PyTree& tree, double bound, const ClipOptions& options) {
  return clip(tree, one_group(tree, bound), options);
}

ClippedTree clip_pytree(const PyTree& tree, const PerGroup& bounds, const ClipOptions& options) {
  return clip(tree, of_groups(tree, bounds), options);
}

ClippedTree auto_scale_pytree(const PyTree& tree, double bound, double gamma, const ClipOptions& options) {
  return auto_scale(tree, one_group(tree, bound), gamma, options);
}

ClippedTree auto_scale_pytree(const PyTree& tree, const PerGroup& bounds, double gamma, const ClipOptions& options) {
  return auto_scale(tree, of_groups(tree, bounds), gamma, options);
}

}  // namespace ripieno
