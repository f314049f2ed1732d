#pragma once

#include <ATen/core/Tensor.h>
#include <optional>
#include <ripieno/framework/core/pytree.hpp>

namespace ripieno {

/// All leaves of the tree in leaf order as one contiguous tensor of shape [numel], of the leaves' dtype; float32 [0]
/// for a tree without leaves.
///
/// No copy is made where `flat_view` has a result, as for the trees that `unflatten` makes: the result then shares
/// their memory. UsageError when the leaves differ in dtype or device.
[[nodiscard]] at::Tensor flatten(const PyTree& tree);

/// The shared buffer as one tensor [numel] without a copy, when the leaves lie one behind the other in one, of one
/// dtype, and need no gradient; nothing otherwise, and for a tree without leaves.
[[nodiscard]] std::optional<at::Tensor> flat_view(const PyTree& tree);

/// The inverse: a tree of the structure and shapes of `like` whose leaves are views of `flat` (shape [like.numel()]),
/// with the dtype and device of `flat`. UsageError when the sizes differ.
[[nodiscard]] PyTree unflatten(const PyTree& like, const at::Tensor& flat);

}  // namespace ripieno
