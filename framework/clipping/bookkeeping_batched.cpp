#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <array>
#include <ripieno/framework/clipping/bookkeeping_handlers.hpp>
#include <ripieno/framework/clipping/per_example_outer.hpp>

/// Batched matrix products with a matrix for each head: data [heads, rows of all examples, m] @ cut [heads, m, k], and
/// the same with the factors exchanged.
namespace ripieno::bookkeeping {
namespace {

namespace generated = torch::autograd::generated;

/// Examples are in the rows of the output when the parameter is the right factor, in its columns when it is the left.
bool factor_serves(const UseSite& site, int right_edge) {
  return site.layout.dim == (site.edge == right_edge ? 1 : 2) && site.cut_shape.size() == 3;
}

/// `data`: the other factor.
PerExampleGradientPtr factor_gradient(const UseSite& site, const at::Tensor& output_gradient, const at::Tensor& data,
                                      int right_edge) {
  const bool right = site.edge == right_edge;
  const auto heads_of_examples = [&](const at::Tensor& tensor) {
    return examples_first(tensor, right ? 1 : 2, site.layout, site.num_examples).transpose(1, 2);
  };
  const at::Tensor of_data = heads_of_examples(data), of_output = heads_of_examples(output_gradient);
  return std::make_unique<OuterProductGradient>(right ? of_data : of_output, right ? of_output : of_data,
                                                site.cut_shape);
}

// torch.bmm(left, right): edges 0, 1.
bool bmm_serves(const UseSite& site) { return factor_serves(site, 1); }

std::vector<at::Tensor> bmm_save(const UseSite& site) {
  const auto& node = as<generated::BmmBackward0>(site);
  return {site.edge == 1 ? node.self_.unpack(site.node) : node.mat2_.unpack(site.node)};
}

PerExampleGradientPtr bmm_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                   std::span<const at::Tensor> saved) {
  return factor_gradient(site, output_gradient, saved[0], 1);
}

// torch.baddbmm(bias, left, right): edges 0, 1, 2.
bool baddbmm_serves(const UseSite& site) {
  return site.edge == 0 ? shared_by_examples(site.layout, site.cut_shape) : factor_serves(site, 2);
}

std::vector<at::Tensor> baddbmm_save(const UseSite& site) {
  const auto& node = as<generated::BaddbmmBackward0>(site);
  if (site.edge == 0) return {};
  return {site.edge == 2 ? node.batch1_.unpack(site.node) : node.batch2_.unpack(site.node)};
}

PerExampleGradientPtr baddbmm_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                       std::span<const at::Tensor> saved) {
  const auto& node = as<generated::BaddbmmBackward0>(site);
  if (site.edge == 0)
    return store(reduce_broadcast(scaled(output_gradient, node.beta), site.layout, site.num_examples, site.cut_shape),
                 site.cut_shape);
  return factor_gradient(site, scaled(output_gradient, node.alpha), saved[0], 2);
}

constexpr std::array k_handlers{
    NodeHandler{"BmmBackward0", false, bmm_serves, bmm_save, bmm_gradient},
    NodeHandler{"BaddbmmBackward0", false, baddbmm_serves, baddbmm_save, baddbmm_gradient},
};

}  // namespace

std::span<const NodeHandler> batched_handlers() { return k_handlers; }

}  // namespace ripieno::bookkeeping
