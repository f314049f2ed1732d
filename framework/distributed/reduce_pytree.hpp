#pragma once

#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/distributed/op.hpp>

namespace ripieno::distributed {

/// Collective. The reduction over ranks of every leaf, a new tree. Dtypes as in `all_reduce`; one small message that
/// compares structure, shapes, dtypes and operation, then at most one collective for each of float32, float64, integers
/// and bools. UsageError on every rank where they differ. Without a Runtime, or on one rank, a copy.
[[nodiscard]] PyTree reduce_pytree(const PyTree& tree, Op op, const Communicator& communicator);
[[nodiscard]] PyTree reduce_pytree(const PyTree& tree, Op op = Op::sum);
/// Collective. The same, written into the leaves of `tree`, which is returned.
const PyTree& reduce_pytree_(const PyTree& tree, Op op, const Communicator& communicator);
const PyTree& reduce_pytree_(const PyTree& tree, Op op = Op::sum);

/// Collective. Sum or mean over ranks of clipped gradient sums: the sum keeps max_norm, the mean has max_norm / W.
/// Other operations are UsageErrors: no bound would be known for them. Otherwise as `sum_gradients`.
[[nodiscard]] Clipped<PyTree> reduce_pytree(const Clipped<PyTree>& gradients, Op op, const Communicator& communicator);
[[nodiscard]] Clipped<PyTree> reduce_pytree(const Clipped<PyTree>& gradients, Op op = Op::sum);
/// Collective. The sum, in the tensors of the argument; a mean would need another bound and is a UsageError.
[[nodiscard]] Clipped<PyTree> reduce_pytree_(const Clipped<PyTree>& gradients, Op op, const Communicator& communicator);
[[nodiscard]] Clipped<PyTree> reduce_pytree_(const Clipped<PyTree>& gradients, Op op = Op::sum);

/// Collective. Sum or mean of gradients that each rank has noised with a key of its own. Variances add, so the sum
/// publishes sigma sqrt(W) and the mean sigma / sqrt(W). PrivacyError where two ranks used one key.
[[nodiscard]] Noised<PyTree> reduce_pytree(const Noised<PyTree>& gradients, Op op, const Communicator& communicator);
[[nodiscard]] Noised<PyTree> reduce_pytree(const Noised<PyTree>& gradients, Op op = Op::sum);
/// Its figures change with the sum, so there is no form in place.
void reduce_pytree_(const Noised<PyTree>& gradients, Op op) = delete;

}  // namespace ripieno::distributed
