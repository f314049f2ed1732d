#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/bookkeeping_handlers.hpp>
#include <ripieno/framework/clipping/per_example_table.hpp>

/// torch.embedding_bag: sums, means or maxima of the table's rows that each bag of ids looks up.
namespace ripieno::bookkeeping {
namespace {

using torch::autograd::generated::EmbeddingBagBackward0;

enum Mode : std::int64_t { k_sum = 0, k_mean = 1, k_max = 2 };

bool serves(const UseSite& site) {
  const auto& node = as<EmbeddingBagBackward0>(site);
  if (node.scale_grad_by_freq)
    throw UsageError("the book-keeping engine does not serve embedding_bag with scale_grad_by_freq",
                     "it divides by how often an id is in the whole batch", "leave scale_grad_by_freq out");
  return !node.sparse && site.edge == 0 && site.layout.dim == 0;
}

/// Ids, where each bag starts in them, a factor for each id or nothing; for maxima also the rows that won, and how many
/// ids a bag holds.
std::vector<at::Tensor> save(const UseSite& site) {
  const auto& node = as<EmbeddingBagBackward0>(site);
  std::vector<at::Tensor> saved{node.indices_.unpack(site.node), node.offsets_.unpack(site.node),
                                node.per_sample_weights_.unpack(site.node)};
  if (node.mode == k_max) {
    saved.push_back(node.result3_.unpack(site.node));
    saved.push_back(node.result2_.unpack(site.node));
  }
  return saved;
}

/// One row for each bag, padded to the longest.
struct Bags {
  at::Tensor ids;      // int64 [bags, longest], -1 where there is none
  at::Tensor factors;  // [bags, longest]
};

Bags padded_bags(std::int64_t num_bags, std::span<const at::Tensor> saved, std::int64_t padding,
                 const at::TensorOptions& options) {
  const at::Tensor ids = saved[0].flatten().to(at::kLong);
  const at::Tensor starts = saved[1].to(at::kLong).narrow(0, 0, num_bags);
  const at::Tensor ends = at::cat({starts.narrow(0, 1, num_bags - 1), at::full({1}, ids.size(0), ids.options())});
  const at::Tensor sizes = ends - starts;
  const at::Tensor bag_of_id = at::repeat_interleave(sizes);
  const at::Tensor place = at::arange(ids.size(0), ids.options()) - starts.index_select(0, bag_of_id);
  const std::int64_t longest = ids.numel() == 0 ? 0 : sizes.max().item<std::int64_t>();

  Bags bags{at::full({num_bags, longest}, -1, ids.options()), at::zeros({num_bags, longest}, options)};
  bags.ids.index_put_({bag_of_id, place}, padding < 0 ? ids : ids.masked_fill(ids.eq(padding), -1));
  bags.factors.index_put_({bag_of_id, place},
                          saved[2].defined() ? saved[2].flatten().to(options.dtype()) : at::ones(ids.sizes(), options));
  return bags;
}

PerExampleGradientPtr gradient_of_rows(const UseSite& site, const at::Tensor& output_gradient, const Bags& bags) {
  const std::int64_t n = site.num_examples, width = site.cut_shape[1];
  const at::Tensor values = output_gradient.unsqueeze(1) * bags.factors.unsqueeze(2);
  return std::make_unique<TableRowsGradient>(examples_first(bags.ids, 0, site.layout, n).flatten(1),
                                             examples_first(values, 0, site.layout, n).reshape({n, -1, width}),
                                             site.cut_shape);
}

/// Every element of a bag's output comes from a row of its own.
PerExampleGradientPtr gradient_of_maxima(const UseSite& site, const at::Tensor& output_gradient,
                                         std::span<const at::Tensor> saved) {
  const std::int64_t n = site.num_examples, width = site.cut_shape[1];
  const at::Tensor filled = saved[4].narrow(0, 0, output_gradient.size(0)).ne(0).unsqueeze(1);
  const at::Tensor values = at::where(filled, output_gradient, at::zeros_like(output_gradient));
  const at::Tensor places =
      saved[3].to(at::kLong).clamp_min(0) * width + at::arange(width, saved[3].options().dtype(at::kLong));
  const at::Tensor rows = at::zeros({n, site.cut_shape[0] * width}, output_gradient.options());
  rows.scatter_add_(1, examples_first(places, 0, site.layout, n).flatten(1),
                    examples_first(values, 0, site.layout, n).flatten(1));
  return store(rows, site.cut_shape);
}

PerExampleGradientPtr gradient(const UseSite& site, const at::Tensor& output_gradient,
                               std::span<const at::Tensor> saved) {
  const auto& node = as<EmbeddingBagBackward0>(site);
  if (node.mode == k_max) return gradient_of_maxima(site, output_gradient, saved);
  Bags bags = padded_bags(output_gradient.size(0), saved, node.padding_idx, output_gradient.options());
  if (node.mode == k_mean) bags.factors.div_(bags.ids.ge(0).sum(1, /*keepdim=*/true).clamp_min(1));
  return gradient_of_rows(site, output_gradient, bags);
}

constexpr std::array k_handlers{NodeHandler{"EmbeddingBagBackward0", false, serves, save, gradient}};

}  // namespace

std::span<const NodeHandler> embedding_bag_handlers() { return k_handlers; }

}  // namespace ripieno::bookkeeping
