#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/distributed/agreement.hpp>
#include <ripieno/framework/distributed/context.hpp>
#include <ripieno/framework/distributed/reduce.hpp>
#include <ripieno/framework/distributed/reduce_pytree.hpp>
#include <ripieno/framework/distributed/tensors.hpp>

namespace ripieno::distributed {
namespace {

/// Collective. The operation of a gradient reduction, which all ranks share: sum or mean.
void check_gradient_op(Op op, bool in_place, const Communicator& communicator) {
  agree(communicator, "the ranks' gradient reductions do not belong together", "reduce by one operation on every rank",
        [&]() -> std::string {
          if (op == Op::sum || (op == Op::mean && !in_place)) return name(op);
          if (op == Op::mean) {
            throw UsageError("a mean in place would change the bound of the sum", {}, "use reduce_pytree");
          }
          throw UsageError(std::string("the ") + name(op) + " of clipped or noised gradients",
                           "no bound is known for it", "reduce .tree() if you mean the numbers");
        });
}

template <class Gradients>
Gradients reduced(const Gradients& gradients, Op op, const Communicator& communicator) {
  check_gradient_op(op, false, communicator);
  Gradients sum = sum_gradients(gradients, communicator);
  return op == Op::mean ? sum / communicator.size() : sum;
}

}  // namespace

PyTree reduce_pytree(const PyTree& tree, Op op, const Communicator& communicator) {
  const OperationScope scope("reduce_pytree");
  const std::vector<at::Tensor> leaves = tree.leaves();
  agree(communicator, "the ranks' trees do not belong together",
        "give trees of the same structure, shapes and dtypes, and one operation, on every rank", [&] {
          for (const at::Tensor& leaf : leaves) detail::check_reducible(leaf, op);
          return std::string(name(op)) + " of " + join(tree.paths()) + ": " + detail::describe_tensors(leaves);
        });
  return tree.with_leaves(detail::reduce_tensors(leaves, op, communicator));
}
PyTree reduce_pytree(const PyTree& tree, Op op) { return reduce_pytree(tree, op, current_communicator()); }

const PyTree& reduce_pytree_(const PyTree& tree, Op op, const Communicator& communicator) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> results = reduce_pytree(tree, op, communicator).leaves();
  const std::vector<at::Tensor> leaves = tree.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].copy_(results[i]);
  return tree;
}
const PyTree& reduce_pytree_(const PyTree& tree, Op op) { return reduce_pytree_(tree, op, current_communicator()); }

Clipped<PyTree> reduce_pytree(const Clipped<PyTree>& gradients, Op op, const Communicator& communicator) {
  return reduced(gradients, op, communicator);
}
Clipped<PyTree> reduce_pytree(const Clipped<PyTree>& gradients, Op op) {
  return reduce_pytree(gradients, op, current_communicator());
}

Clipped<PyTree> reduce_pytree_(const Clipped<PyTree>& gradients, Op op, const Communicator& communicator) {
  check_gradient_op(op, true, communicator);
  return sum_gradients_(gradients, communicator);
}
Clipped<PyTree> reduce_pytree_(const Clipped<PyTree>& gradients, Op op) {
  return reduce_pytree_(gradients, op, current_communicator());
}

Noised<PyTree> reduce_pytree(const Noised<PyTree>& gradients, Op op, const Communicator& communicator) {
  return reduced(gradients, op, communicator);
}
Noised<PyTree> reduce_pytree(const Noised<PyTree>& gradients, Op op) {
  return reduce_pytree(gradients, op, current_communicator());
}

}  // namespace ripieno::distributed
