#pragma once

#include <memory>
#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/clipping/engine_limits.hpp>

namespace ripieno {

enum class EngineKind {
  automatic,    ///< bookkeeping where it serves the loss, else vmap where that does, else loop
  bookkeeping,  ///< all examples at once, from the autograd graph of the loss
  vmap,         ///< all examples at once, with their gradients stored
  loop,         ///< one example at a time
};

/// A new engine for one loss.
///
/// `automatic` decides on the first call to `clip`, on three made-up examples of the shapes and dtypes of the batch,
/// never on private ones. The first of bookkeeping and vmap that accepts the loss and agrees with loop on them is
/// taken, else loop, and the log says which and why. From then on name() is that of the engine taken; before,
/// "automatic". UsageError for a loss that none can serve, or whose value for an example depends on the others.
[[nodiscard]] std::unique_ptr<ClippingEngine> make_engine(EngineKind kind, const EngineLimits& limits = {});

}  // namespace ripieno
