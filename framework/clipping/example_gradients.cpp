#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/framework/clipping/example_gradients.hpp>
#include <ripieno/framework/clipping/vmap_grad.hpp>

namespace ripieno::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

// Gradients in memory at once where the caller sets no limit; sums do not depend on it.
constexpr std::int64_t k_examples_at_once = 64;

at::ScalarType accumulation_dtype(const at::Tensor& leaf) {
  return leaf.is_complex() ? at::kComplexDouble : at::kDouble;
}

Tensors zeros(const PyTree& like) {
  Tensors leaves;
  for (const at::Tensor& leaf : like.leaves())
    leaves.push_back(at::zeros(leaf.sizes(), leaf.options().dtype(accumulation_dtype(leaf)).requires_grad(false)));
  return leaves;
}

at::Tensor of_values(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }

Tensors slice(std::span<const at::Tensor> batch, std::int64_t begin, std::int64_t size) {
  Tensors part;
  for (const at::Tensor& tensor : batch) part.push_back(tensor.narrow(0, begin, size));
  return part;
}

/// The same as vmap_grad, one example at a time.
PerExampleGradients loop_grad(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch) {
  const c10::AutoGradMode with_gradients(true);
  const PyTree fresh = params.map([](const at::Tensor& leaf) { return leaf.detach().requires_grad_(); });
  const Tensors leaves = fresh.leaves();
  const std::int64_t n = check_batch(batch);
  std::vector<Tensors> rows(leaves.size());
  Tensors losses;
  for (std::int64_t i = 0; i < n; ++i) {
    const at::Tensor value = loss(fresh, slice(batch, i, 1));
    check_losses(value, 1);
    const Tensors gradient = torch::autograd::grad({value}, leaves, {}, /*retain_graph=*/false,
                                                   /*create_graph=*/false, /*allow_unused=*/true);
    losses.push_back(value.detach());
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
      rows[leaf].push_back(gradient[leaf].defined() ? gradient[leaf] : at::zeros_like(leaves[leaf].detach()));
  }
  PerExampleGradients result;
  result.losses = at::cat(losses);
  for (const Tensors& of_leaf : rows) result.gradients.push_back(at::stack(of_leaf));
  return result;
}

/// A loss that reduces over the batch does not show it with one example.
void check_one_loss_per_example(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch) {
  const c10::AutoGradMode with_gradients(true);
  const PyTree fresh = params.map([](const at::Tensor& leaf) { return leaf.detach().requires_grad_(); });
  Tensors two = slice(batch, 0, 1);
  for (at::Tensor& tensor : two) tensor = at::cat({tensor, tensor});
  check_losses(loss(fresh, two), 2);
}

/// Chooses by what functorch supports, which depends on operations, shapes and dtypes and never on values.
class GradientSource {
 public:
  GradientSource(const LossFn& loss, EngineKind engine) : loss_(loss), loops_(engine == EngineKind::loop) {}

  PerExampleGradients operator()(const PyTree& params, std::span<const at::Tensor> batch) {
    if (loops_) return loop_grad(loss_, params, batch);
    try {
      return vmap_grad(loss_, params, batch);
    } catch (const c10::Error& error) {
      log::info("gradients one example at a time; vmap does not serve this loss: " +
                std::string(error.what_without_backtrace()));
      loops_ = true;
      return loop_grad(loss_, params, batch);
    }
  }

 private:
  const LossFn& loss_;
  bool loops_;
};

PyTree transformed(const ClippingOptions& options, const PyTree& gradient) {
  return options.pre_clipping_transform ? options.pre_clipping_transform(gradient) : gradient;
}

bool all_float64(const PyTree& tree) {
  for (const at::Tensor& leaf : tree.leaves())
    if (leaf.scalar_type() != at::kDouble) return false;
  return true;
}

/// Example i of rows, with zeros for leaves that the loss does not use.
PyTree example_of(const PerExampleGradients& rows, const PyTree& params, std::int64_t i) {
  Tensors leaves = params.leaves();
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
    leaves[leaf] = rows.gradients[leaf].defined() ? rows.gradients[leaf][i] : at::zeros_like(leaves[leaf].detach());
  return params.with_leaves(leaves);
}

}  // namespace

TreeClipper::TreeClipper(const ClippingOptions& options, const PyTree& like, at::ScalarType sum_dtype)
    : options_(options), like_(like), sum_dtype_(sum_dtype), sum_(zeros(like)), squares_(zeros(like)) {
  const std::size_t groups = options.per_group ? options.per_group->num_groups() : 1;
  counts_.group_num_clipped.resize(groups);
  group_norms_.resize(groups);
}

void TreeClipper::add(const PyTree& example, bool masked) {
  const ClippedTree result = clipped(example, masked);
  const Tensors leaves = result.tree.leaves();
  check_same_structure(like_, result.tree, "the gradients of two examples");
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const at::Tensor wide = leaves[i].to(accumulation_dtype(leaves[i]));
    sum_[i] += wide;
    squares_[i] += wide * wide;
  }
  norms_.push_back(result.norm);
  clipped_norms_.push_back(stored_norm(leaves));
  for (std::size_t group = 0; group < group_norms_.size(); ++group)
    group_norms_[group].push_back(result.group_norms[group]);
  count(result, masked);
}

ClippedTree TreeClipper::clipped(const PyTree& example, bool masked) const {
  const ClipOptions options{
      .non_finite = options_.non_finite, .compute_dtype = options_.compute_dtype, .return_zero = masked};
  if (options_.automatic_gamma)
    return options_.per_group ? auto_scale_pytree(example, *options_.per_group, *options_.automatic_gamma, options)
                              : auto_scale_pytree(example, options_.clipping_norm, *options_.automatic_gamma, options);
  return options_.per_group ? clip_pytree(example, *options_.per_group, options)
                            : clip_pytree(example, options_.clipping_norm, options);
}

void TreeClipper::count(const ClippedTree& clipped, bool masked) {
  ++counts_.batch_size;
  if (masked || !std::isfinite(clipped.norm)) {
    ++counts_.num_non_finite;
    return;
  }
  const std::vector<double> bounds =
      options_.per_group ? options_.per_group->ordered_values() : std::vector<double>{options_.clipping_norm};
  bool in_some_group = false;
  for (std::size_t group = 0; group < bounds.size(); ++group) {
    const bool exceeds = clipped.group_norms[group] > bounds[group];
    counts_.group_num_clipped[group] += exceeds ? 1 : 0;
    in_some_group = in_some_group || exceeds;
  }
  counts_.num_clipped += in_some_group ? 1 : 0;
}

PyTree TreeClipper::of_dtype(const Tensors& leaves) const {
  Tensors cast;
  for (const at::Tensor& leaf : leaves)
    cast.push_back(leaf.is_complex() ? leaf.to(at::toComplexType(sum_dtype_)) : leaf.to(sum_dtype_));
  return like_.with_leaves(cast);
}

ClippingAux TreeClipper::aux() const {
  ClippingAux aux;
  aux.norms = of_values(norms_);
  aux.clipped_norms = of_values(clipped_norms_);
  aux.batch_size = counts_.batch_size;
  if (!options_.per_group) {
    const auto size = static_cast<double>(std::max<std::int64_t>(1, counts_.batch_size));
    aux.clipping_rate = static_cast<double>(counts_.num_clipped) / size;
    return aux;
  }
  std::size_t group = 0;
  for (const auto& [name, bound] : options_.per_group->values())
    aux.group_norms.emplace(name, of_values(group_norms_[group++]));
  return aux;
}

ExampleGradients clip_example_gradients(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                                        const ClippingOptions& options) {
  const std::int64_t n = check_batch(batch);
  const PyTree detached = params.map([](const at::Tensor& leaf) { return leaf.detach(); });
  const PyTree like = transformed(options, detached.map([](const at::Tensor& leaf) { return at::zeros_like(leaf); }));
  TreeClipper clipper(options, like, all_float64(like) ? at::kDouble : options.sum_dtype);
  Tensors losses{at::empty({0}, at::kDouble)};
  if (n > 0) check_one_loss_per_example(loss, params, batch);
  GradientSource source(loss, options.engine);
  const std::int64_t at_once = options.microbatch_size > 0 ? options.microbatch_size : k_examples_at_once;
  for (std::int64_t begin = 0; begin < n; begin += at_once) {
    const std::int64_t size = std::min(at_once, n - begin);
    const PerExampleGradients rows = source(detached, slice(batch, begin, size));
    const at::Tensor masked = options.non_finite == NonFinite::zero_example ? rows.losses.isfinite().logical_not()
                                                                            : at::zeros({size}, at::kBool);
    for (std::int64_t i = 0; i < size; ++i)
      clipper.add(transformed(options, example_of(rows, detached, i)), masked[i].item<bool>());
    losses.push_back(rows.losses.to(at::kDouble));
  }
  ExampleGradients result{.sum = clipper.sum(),
                          .sum_of_squares = clipper.sum_of_squares(),
                          .counts = clipper.counts(),
                          .aux = clipper.aux()};
  result.aux.losses = at::cat(losses);
  return result;
}

bool needs_example_gradients(const ClippingOptions& options, const PyTree& params) {
  if (options.pre_clipping_transform || options.non_finite == NonFinite::zero_entries) return true;
  for (const at::Tensor& leaf : params.leaves()) {
    if (leaf.scalar_type() != at::kFloat && leaf.scalar_type() != at::kDouble) return true;
    if (options.compute_dtype && *options.compute_dtype != leaf.scalar_type()) return true;
  }
  return false;
}

Clipped<PyTree> with_bounds(PyTree sum, const ClippingOptions& options, int power) {
  if (options.normalize_by != 1) sum = divided(sum, options.normalize_by);
  if (options.per_group) {
    const PerGroup bounds = power == 1 ? *options.per_group : *options.per_group * *options.per_group;
    return {std::move(sum), bounds / options.normalize_by, Extent::local};
  }
  return {std::move(sum), std::pow(options.clipping_norm, power) / options.normalize_by, Extent::local};
}

}  // namespace ripieno::detail
