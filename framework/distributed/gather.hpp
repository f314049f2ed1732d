#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/core/pytree.hpp>

namespace ripieno::distributed {

/// Collective. The ranks' tensors one after the other along dimension `dim` (negative counts from the last), in rank
/// order, on every rank. They may differ in size there, and be empty; dtype, number of dimensions and the other extents
/// are the same. UsageError on every rank otherwise, and for tensors without dimensions. Two messages, one of them the
/// data. Without a Runtime, or on one rank, a copy.
[[nodiscard]] at::Tensor gather_tensors(const at::Tensor& tensor, std::int64_t dim, const Communicator& communicator);
[[nodiscard]] at::Tensor gather_tensors(const at::Tensor& tensor, std::int64_t dim = 0);

/// Collective. The same along the first dimension for every leaf of a tree. Ranks may pass none and are left out; none
/// where all do. UsageError on every rank where structures differ. Two messages, whatever the number of leaves.
[[nodiscard]] std::optional<PyTree> gather_pytree(const std::optional<PyTree>& tree, const Communicator& communicator);
[[nodiscard]] std::optional<PyTree> gather_pytree(const std::optional<PyTree>& tree);

}  // namespace ripieno::distributed
