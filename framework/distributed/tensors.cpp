#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/core/flat_values.hpp>
#include <ripieno/framework/distributed/agreement.hpp>
#include <ripieno/framework/distributed/context.hpp>
#include <ripieno/framework/distributed/tensors.hpp>

namespace ripieno::distributed {
namespace {

constexpr std::string_view k_same_tensors =
    "give tensors of the same shape and dtype, and one operation, on every rank";

bool is_bool(const at::Tensor& tensor) { return tensor.scalar_type() == at::kBool; }

/// The dtype in which sums are formed.
at::ScalarType working_dtype(const at::Tensor& tensor) {
  if (!tensor.is_floating_point()) return at::kLong;
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// A sum of bools is their or, a product their and.
ReduceOp reduction_of(Op op, bool of_bools) {
  const ReduceOp numbers = detail::reduce_op(op);
  if (of_bools && numbers == ReduceOp::sum) return ReduceOp::max;
  if (of_bools && numbers == ReduceOp::product) return ReduceOp::min;
  return numbers;
}

/// Collective. `flat`: contiguous on the CPU, of a working dtype.
void reduce_flat_(const at::Tensor& flat, ReduceOp op, const Communicator& communicator) {
  with_values(flat, [&](auto values) { communicator.allreduce(values, op); });
}

/// Back to the dtype that came. Equal on every rank, as is the error.
at::Tensor narrowed(const at::Tensor& values, const at::Tensor& like) {
  const at::Tensor result = values.to(like.scalar_type());
  if (!values.is_floating_point() && !at::equal(result.to(at::kLong), values)) {
    throw CommError(std::string("a reduction does not fit in ") + at::toString(like.scalar_type()), {},
                    "convert to a wider integer first");
  }
  return result.view(like.sizes()).to(like.device());
}

}  // namespace

namespace detail {

ReduceOp reduce_op(Op op) {
  switch (op) {
    case Op::sum:
    case Op::mean:
      return ReduceOp::sum;
    case Op::product:
      return ReduceOp::product;
    case Op::max:
      return ReduceOp::max;
    case Op::min:
      return ReduceOp::min;
  }
  throw UsageError("an operation of number " + std::to_string(static_cast<int>(op)));
}

std::string describe_tensors(const std::vector<at::Tensor>& tensors) {
  std::vector<std::string> parts;
  for (const at::Tensor& tensor : tensors) {
    std::vector<std::string> extents;
    for (const std::int64_t extent : tensor.sizes()) extents.push_back(std::to_string(extent));
    parts.push_back(std::string(at::toString(tensor.scalar_type())) + " [" + join(extents) + "]");
  }
  return join(parts, ", ");
}

void check_reducible(const at::Tensor& tensor, Op op) {
  const std::string dtype = at::toString(tensor.scalar_type());
  const bool integral = at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
  if (!integral && !tensor.is_floating_point()) throw UsageError("tensors of dtype " + dtype + " cannot be reduced");
  if (integral && op == Op::mean) {
    throw UsageError("the mean of " + dtype + " tensors is no " + dtype + " tensor", {},
                     "take the sum, or convert to floating point first");
  }
}

std::vector<at::Tensor> reduce_tensors(const std::vector<at::Tensor>& tensors, Op op,
                                       const Communicator& communicator) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> results(tensors.size());
  std::map<std::pair<at::ScalarType, bool>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    groups[{working_dtype(tensors[i]), is_bool(tensors[i])}].push_back(i);
  }
  for (const auto& [kind, members] : groups) {
    std::vector<at::Tensor> parts;
    for (const std::size_t i : members) parts.push_back(tensors[i].detach().cpu().to(kind.first).reshape({-1}));
    const at::Tensor flat = at::cat(parts);  // a copy even of one part
    reduce_flat_(flat, reduction_of(op, kind.second), communicator);
    if (op == Op::mean) flat.div_(communicator.size());
    std::int64_t begin = 0;
    for (const std::size_t i : members) {
      results[i] = narrowed(flat.narrow(0, begin, tensors[i].numel()), tensors[i]);
      begin += tensors[i].numel();
    }
  }
  return results;
}

}  // namespace detail

at::Tensor all_reduce(const at::Tensor& tensor, Op op, const Communicator& communicator) {
  const OperationScope scope("all_reduce");
  agree(communicator, "the ranks' reductions do not belong together", k_same_tensors, [&] {
    detail::check_reducible(tensor, op);
    return std::string(name(op)) + " of " + detail::describe_tensors({tensor});
  });
  return detail::reduce_tensors({tensor}, op, communicator).front();
}
at::Tensor all_reduce(const at::Tensor& tensor, Op op) {
  require_runtime("all_reduce");
  return all_reduce(tensor, op, current_communicator());
}

const at::Tensor& all_reduce_(const at::Tensor& tensor, Op op, const Communicator& communicator) {
  const at::NoGradGuard no_grad;
  tensor.copy_(all_reduce(tensor, op, communicator));
  return tensor;
}
const at::Tensor& all_reduce_(const at::Tensor& tensor, Op op) {
  require_runtime("all_reduce_");
  return all_reduce_(tensor, op, current_communicator());
}

PyTree broadcast(const PyTree& tree, int root, const Communicator& communicator) {
  const OperationScope scope("broadcast");
  agree(communicator, "the ranks' broadcasts do not belong together", k_same_tensors, [&] {
    if (root < 0 || root >= communicator.size()) {
      throw UsageError("broadcast from rank " + std::to_string(root),
                       "there are ranks 0 to " + std::to_string(communicator.size() - 1));
    }
    return "from rank " + std::to_string(root) + ": " + join(tree.paths()) + ": " +
           detail::describe_tensors(tree.leaves());
  });
  return tree.map([&](const at::Tensor& leaf) {
    const at::Tensor host = leaf.detach().cpu().clone(at::MemoryFormat::Contiguous);
    communicator.broadcast({static_cast<std::byte*>(host.mutable_data_ptr()), host.nbytes()}, root);
    return host.to(leaf.device());
  });
}
PyTree broadcast(const PyTree& tree, int root) {
  require_runtime("broadcast");
  return broadcast(tree, root, current_communicator());
}

at::Tensor broadcast(const at::Tensor& tensor, int root, const Communicator& communicator) {
  return broadcast(PyTree(tensor), root, communicator).tensor();
}
at::Tensor broadcast(const at::Tensor& tensor, int root) { return broadcast(PyTree(tensor), root).tensor(); }

}  // namespace ripieno::distributed
