#pragma once

#include <memory>
#include <ripieno/framework/clipping/engine.hpp>

namespace ripieno {

/// Clips from the autograd graph of the loss itself: one forward, one backward that stops at the outputs of the
/// operations that use parameters, per-example norms from their inputs and output gradients, and the clipped sum from
/// the same two.
///
/// Served are the operations in bookkeeping_handlers.cpp; any other is refused with a UsageError that names it and
/// advises the loop engine. So is a loss that mixes examples. Both are found the first time a graph is met, by running
/// the loss on two and three made-up examples (see graph_synthetic.hpp), never on the given batch. A loss whose graph
/// depends on the values of the batch is refused when a graph turns up that the made-up examples do not give.
///
/// Memory beyond a plain step: all output gradients at once, and n times the size of every parameter whose per-example
/// gradient is stored (convolutions, linear layers over sequences, parameters used several times); the microbatch
/// bounds it.
[[nodiscard]] std::unique_ptr<ClippingEngine> make_bookkeeping_engine();

}  // namespace ripieno
