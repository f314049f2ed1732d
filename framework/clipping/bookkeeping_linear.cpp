#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <array>
#include <ripieno/framework/clipping/bookkeeping_handlers.hpp>
#include <ripieno/framework/clipping/per_example_outer.hpp>

/// Matrix products: linear layers with and without bias, inputs of any rank flattened to rows, x @ W, W @ x, x @ w.
namespace ripieno::bookkeeping {
namespace {

namespace generated = torch::autograd::generated;

/// sum_r u_r v_r^T for each example; u [n, rows, m], v [n, rows, k].
PerExampleGradientPtr sum_of_outer_products(const at::Tensor& u, const at::Tensor& v, const Shape& shape) {
  return std::make_unique<OuterProductGradient>(u.unsqueeze(1), v.unsqueeze(1), shape);
}

/// Gradients of the right factor of data @ cut: examples are rows of `data` and of the output.
PerExampleGradientPtr right_factor(const UseSite& site, const at::Tensor& output_gradient, const at::Tensor& data) {
  return sum_of_outer_products(examples_first(data, 0, site.layout, site.num_examples),
                               examples_first(output_gradient, 0, site.layout, site.num_examples), site.cut_shape);
}

/// Gradients of the left factor of cut @ data: examples are columns.
PerExampleGradientPtr left_factor(const UseSite& site, const at::Tensor& output_gradient, const at::Tensor& data) {
  return sum_of_outer_products(examples_first(output_gradient, 1, site.layout, site.num_examples),
                               examples_first(data, 1, site.layout, site.num_examples), site.cut_shape);
}

// torch.addmm(bias, left, right): edges 0, 1, 2.
bool addmm_serves(const UseSite& site) {
  if (site.edge == 0) return shared_by_examples(site.layout, site.cut_shape);
  return site.layout.dim == (site.edge == 2 ? 0 : 1);
}

std::vector<at::Tensor> addmm_save(const UseSite& site) {
  const auto& node = as<generated::AddmmBackward0>(site);
  if (site.edge == 0) return {};
  return {site.edge == 2 ? node.mat1_.unpack(site.node) : node.mat2_.unpack(site.node)};
}

PerExampleGradientPtr addmm_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                     std::span<const at::Tensor> saved) {
  const auto& node = as<generated::AddmmBackward0>(site);
  if (site.edge == 0)
    return store(reduce_broadcast(scaled(output_gradient, node.beta), site.layout, site.num_examples, site.cut_shape),
                 site.cut_shape);
  const at::Tensor gradient = scaled(output_gradient, node.alpha);
  return site.edge == 2 ? right_factor(site, gradient, saved[0]) : left_factor(site, gradient, saved[0]);
}

// torch.mm(left, right): edges 0, 1.
bool mm_serves(const UseSite& site) { return site.layout.dim == (site.edge == 1 ? 0 : 1); }

std::vector<at::Tensor> mm_save(const UseSite& site) {
  const auto& node = as<generated::MmBackward0>(site);
  return {site.edge == 1 ? node.self_.unpack(site.node) : node.mat2_.unpack(site.node)};
}

PerExampleGradientPtr mm_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                  std::span<const at::Tensor> saved) {
  return site.edge == 1 ? right_factor(site, output_gradient, saved[0]) : left_factor(site, output_gradient, saved[0]);
}

// torch.mv(matrix, vector): edges 0, 1.
bool mv_serves(const UseSite& site) { return site.edge == 1 && site.layout.dim == 0; }

std::vector<at::Tensor> mv_save(const UseSite& site) {
  return {as<generated::MvBackward0>(site).self_.unpack(site.node)};
}

PerExampleGradientPtr mv_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                  std::span<const at::Tensor> saved) {
  return right_factor(site, output_gradient.unsqueeze(1), saved[0]);
}

constexpr std::array k_handlers{
    NodeHandler{"AddmmBackward0", false, addmm_serves, addmm_save, addmm_gradient},
    NodeHandler{"MmBackward0", false, mm_serves, mm_save, mm_gradient},
    NodeHandler{"MvBackward0", false, mv_serves, mv_save, mv_gradient},
};

}  // namespace

std::span<const NodeHandler> linear_handlers() { return k_handlers; }

}  // namespace ripieno::bookkeeping
