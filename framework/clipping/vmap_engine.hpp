#pragma once

#include <memory>
#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/clipping/engine_limits.hpp>

namespace ripieno {

/// Clips gradients that vmap(grad(loss)) computes for many examples at once and stores: any use of a parameter is
/// served, at the price of memory. The loss is called with one example (n = 1) that stands for all of them.
///
/// Refused with a UsageError that says how to rewrite it is a loss that functorch cannot transform: one that reads
/// values out of tensors, changes shared tensors in place (running statistics), uses an operator without a batching
/// rule or a C++ autograd::Function, or calls a torch::nn module. That is found on the first call, on made-up examples
/// (see graph_synthetic.hpp), never on the given ones. So is a loss that reduces over examples.
///
/// Memory beyond a plain step: 16 MiB of gradients, less if limits.memory_budget is less, or those of one example if
/// they are larger, whatever the size of the microbatch.
[[nodiscard]] std::unique_ptr<ClippingEngine> make_vmap_engine(const EngineLimits& limits = {});

}  // namespace ripieno
