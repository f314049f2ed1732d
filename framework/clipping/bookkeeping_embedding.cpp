#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/bookkeeping_handlers.hpp>
#include <ripieno/framework/clipping/per_example_table.hpp>

/// Rows of a table, looked up by ids: embedding, index_select along dimension 0, table[ids].
namespace ripieno::bookkeeping {
namespace {

namespace generated = torch::autograd::generated;

/// The examples are in the dimensions of the ids, which come before those of a row.
bool examples_are_in_ids(const UseSite& site) {
  return !site.cut_shape.empty() && site.edge == 0 &&
         site.layout.dim <= site.layout.dims - static_cast<std::int64_t>(site.cut_shape.size());
}

/// ids: int64, negative where they do not count; output_gradient: their shape, then that of a row.
PerExampleGradientPtr rows_of_ids(const UseSite& site, const at::Tensor& output_gradient, const at::Tensor& ids) {
  const std::int64_t n = site.num_examples;
  const at::Tensor by_example = examples_first(ids, site.layout.dim, site.layout, n).flatten(1);
  const at::Tensor values =
      examples_first(output_gradient, site.layout.dim, site.layout, n)
          .reshape({n, by_example.size(1), c10::multiply_integers(site.cut_shape.begin() + 1, site.cut_shape.end())});
  return std::make_unique<TableRowsGradient>(by_example, values, site.cut_shape);
}

// torch.embedding(table, ids)
bool embedding_serves(const UseSite& site) {
  const auto& node = as<generated::EmbeddingBackward0>(site);
  if (node.scale_grad_by_freq)
    throw UsageError("the book-keeping engine does not serve embedding with scale_grad_by_freq",
                     "it divides by how often an id is in the whole batch",
                     "leave scale_grad_by_freq out, or use engine loop, where the ids of one example are counted");
  return !node.sparse && examples_are_in_ids(site);
}

std::vector<at::Tensor> embedding_save(const UseSite& site) {
  return {as<generated::EmbeddingBackward0>(site).indices_.unpack(site.node)};
}

PerExampleGradientPtr embedding_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                         std::span<const at::Tensor> saved) {
  const at::Tensor ids = saved[0].to(at::kLong);
  const std::int64_t padding = as<generated::EmbeddingBackward0>(site).padding_idx.expect_int();
  return rows_of_ids(site, output_gradient, padding < 0 ? ids : ids.masked_fill(ids.eq(padding), -1));
}

// torch.index_select(table, 0, ids)
bool index_select_serves(const UseSite& site) {
  return as<generated::IndexSelectBackward0>(site).dim == 0 && examples_are_in_ids(site);
}

std::vector<at::Tensor> index_select_save(const UseSite& site) {
  return {as<generated::IndexSelectBackward0>(site).index_.unpack(site.node)};
}

PerExampleGradientPtr index_select_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                            std::span<const at::Tensor> saved) {
  return rows_of_ids(site, output_gradient, saved[0].to(at::kLong));
}

// table[ids], where ids from the end are negative
std::vector<at::Tensor> index_save(const UseSite& site) {
  return {as<generated::IndexBackward0>(site).indices_.front().unpack(site.node)};
}

bool index_serves(const UseSite& site) {
  if (as<generated::IndexBackward0>(site).indices_.size() != 1 || !examples_are_in_ids(site)) return false;
  const at::Tensor ids = index_save(site).front();
  return ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt;
}

PerExampleGradientPtr index_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                     std::span<const at::Tensor> saved) {
  const at::Tensor ids = saved[0].to(at::kLong);
  return rows_of_ids(site, output_gradient, at::where(ids.lt(0), ids + site.cut_shape.front(), ids));
}

constexpr std::array k_handlers{
    NodeHandler{"EmbeddingBackward0", false, embedding_serves, embedding_save, embedding_gradient},
    NodeHandler{"IndexSelectBackward0", false, index_select_serves, index_select_save, index_select_gradient},
    NodeHandler{"IndexBackward0", false, index_serves, index_save, index_gradient},
};

}  // namespace

std::span<const NodeHandler> embedding_handlers() { return k_handlers; }

}  // namespace ripieno::bookkeeping
