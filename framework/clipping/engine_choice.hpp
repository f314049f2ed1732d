#pragma once

#include <memory>
#include <ripieno/framework/clipping/engine.hpp>

namespace ripieno {

enum class EngineKind {
  automatic,    ///< bookkeeping where it serves the loss, else loop
  bookkeeping,  ///< all examples at once, from the autograd graph of the loss
  loop,         ///< one example at a time
};

/// A new engine for one loss.
///
/// `automatic` decides on the first call to `clip`, on three made-up examples of the shapes and dtypes of the batch,
/// never on private ones. Both engines clip those; bookkeeping is taken when it accepts the loss and agrees with loop,
/// and the log says which was taken and why. From then on name() is that of the engine taken; before, "automatic".
/// UsageError for a loss that neither can serve, or whose value for an example depends on the others.
[[nodiscard]] std::unique_ptr<ClippingEngine> make_engine(EngineKind kind);

}  // namespace ripieno
