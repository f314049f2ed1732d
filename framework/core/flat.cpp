#include <ATen/ATen.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/flat.hpp>

namespace ripieno {
namespace {

bool one_kind(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

void check_one_kind(const PyTree& tree, const std::vector<at::Tensor>& leaves) {
  for (std::size_t i = 1; i < leaves.size(); ++i)
    if (!one_kind(leaves[i], leaves[0]))
      throw UsageError("a tree of several dtypes or devices cannot be one flat tensor",
                       "'" + tree.paths()[0] + "' is " + leaves[0].toString() + ", '" + tree.paths()[i] + "' is " +
                           leaves[i].toString());
}

}  // namespace

std::optional<at::Tensor> flat_view(const PyTree& tree) {
  const std::vector<at::Tensor> leaves = tree.leaves();
  if (leaves.empty()) return std::nullopt;
  std::int64_t size = 0;
  for (const at::Tensor& leaf : leaves) {
    const bool continues = one_kind(leaf, leaves[0]) && leaf.is_alias_of(leaves[0]) && leaf.is_contiguous() &&
                           leaf.storage_offset() == leaves[0].storage_offset() + size;
    if (leaf.requires_grad() || !continues) return std::nullopt;
    size += leaf.numel();
  }
  return leaves[0].as_strided({size}, {1}, leaves[0].storage_offset());
}

at::Tensor flatten(const PyTree& tree) {
  if (const std::optional<at::Tensor> view = flat_view(tree)) return *view;
  std::vector<at::Tensor> leaves = tree.leaves();
  if (leaves.empty()) return at::empty({0}, at::kFloat);
  check_one_kind(tree, leaves);
  for (at::Tensor& leaf : leaves) leaf = leaf.reshape({-1});
  return at::cat(leaves);
}

PyTree unflatten(const PyTree& like, const at::Tensor& flat) {
  if (flat.dim() != 1 || flat.numel() != like.numel())
    throw UsageError("a flat tensor of " + std::to_string(flat.numel()) + " elements and " +
                     std::to_string(flat.dim()) + " dimensions does not fill a tree of " +
                     std::to_string(like.numel()) + " elements");
  std::int64_t offset = 0;
  return like.map([&](const at::Tensor& leaf) {
    const at::Tensor view = flat.narrow(0, offset, leaf.numel()).view(leaf.sizes());
    offset += leaf.numel();
    return view;
  });
}

}  // namespace ripieno
