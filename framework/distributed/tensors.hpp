#pragma once

#include <ATen/core/Tensor.h>

#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/distributed/op.hpp>
#include <vector>

namespace ripieno::distributed {

// Direct collectives on tensors of any device. Shapes, dtypes and operations are compared between ranks before anything
// is sent; UsageError on every rank where they differ. Float32 and float64 are reduced as they are; half and bfloat16
// in float32, rounded once; integers exactly, and a result that does not fit the dtype is a CommError on every rank;
// bool as or (sum, max) and and (product, min). A mean of integers or bools is a UsageError, as are complex tensors.
//
// Without a Runtime the forms that take no communicator throw CommError.

/// Collective. The reduction over ranks, a new tensor of the same shape and dtype.
[[nodiscard]] at::Tensor all_reduce(const at::Tensor& tensor, Op op, const Communicator& communicator);
[[nodiscard]] at::Tensor all_reduce(const at::Tensor& tensor, Op op = Op::sum);
/// Collective. The same, written into `tensor`, which is returned.
const at::Tensor& all_reduce_(const at::Tensor& tensor, Op op, const Communicator& communicator);
const at::Tensor& all_reduce_(const at::Tensor& tensor, Op op = Op::sum);

/// Collective. The tensor of rank `root` on every rank; all give one of the same shape and dtype. UsageError for a root
/// that is no rank.
[[nodiscard]] at::Tensor broadcast(const at::Tensor& tensor, int root, const Communicator& communicator);
[[nodiscard]] at::Tensor broadcast(const at::Tensor& tensor, int root = 0);
/// Collective. The tree of rank `root`, leaf by leaf.
[[nodiscard]] PyTree broadcast(const PyTree& tree, int root, const Communicator& communicator);
[[nodiscard]] PyTree broadcast(const PyTree& tree, int root = 0);

namespace detail {

/// What the communicator does for `op`; a mean is a sum to it.
[[nodiscard]] ReduceOp reduce_op(Op op);
/// "float32 [2, 3], int64 []": what must be equal on all ranks.
[[nodiscard]] std::string describe_tensors(const std::vector<at::Tensor>& tensors);
/// UsageError for a tensor that `op` cannot reduce.
void check_reducible(const at::Tensor& tensor, Op op);
/// Collective. Reductions of tensors that have been checked and agreed on: at most one collective for each of float32,
/// float64, integers and bools, whatever the number of tensors.
[[nodiscard]] std::vector<at::Tensor> reduce_tensors(const std::vector<at::Tensor>& tensors, Op op,
                                                     const Communicator& communicator);

}  // namespace detail
}  // namespace ripieno::distributed
