#pragma once

#include <memory>
#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/clipping/engine_limits.hpp>

namespace ripieno {

/// Clips from the autograd graph of the loss itself: one forward, one backward that stops at the outputs of the
/// operations that use parameters, per-example norms from their inputs and output gradients, and the clipped sum from
/// the same two.
///
/// Served are the operations in bookkeeping_handlers.cpp where parameters meet examples: linear layers, matrix products
/// with one matrix or one for each head, convolutions, tables looked up by ids, layer, group, instance and root mean
/// square normalisation, elementwise operations with a parameter that is broadcast, expanded or repeated. Parameters
/// may be computed from others (low-rank updates, weight normalisation, masks, chunks) by any operation. Recurrent
/// cells are linear layers used step after step. Any other operation is refused with a UsageError that names it and
/// advises the loop engine. So is a loss that mixes examples. Both are found the first time a graph is met, by running
/// the loss on two and three made-up examples (see graph_synthetic.hpp), never on the given batch. A loss whose graph
/// depends on the values of the batch is refused when a graph turns up that the made-up examples do not give.
///
/// Norms of a parameter that an example uses in several rows (a linear layer over a sequence, a recurrent cell) come
/// from inner products of the rows where that costs less than its gradient in full and limits.max_spread allows it. An
/// example for which the proven bound of its norm is too loose (judged_norms), because its rows cancel, is clipped once
/// more, with sums in float64.
///
/// Memory beyond a plain step: all output gradients at once, and n times the size of every parameter whose per-example
/// gradient is stored (convolutions, linear layers over short sequences of few features, computed parameters,
/// parameters used in several ways, so also a table that is the output layer as well). A table that is only looked up
/// costs n times the rows that an example looks up, not its size. A microbatch that would need more than
/// limits.memory_budget is clipped in parts.
[[nodiscard]] std::unique_ptr<ClippingEngine> make_bookkeeping_engine(const EngineLimits& limits = {});

}  // namespace ripieno
