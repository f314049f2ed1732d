#pragma once

#include <memory>
#include <ripieno/framework/clipping/engine.hpp>

namespace ripieno {

/// The engine that needs no cleverness: the loss is called and differentiated for one example at a time (n = 1), each
/// gradient is formed, its squares are summed in float64, and the clipped contribution is stored and added in float64.
/// It serves every loss and is what the other engines are checked against.
///
/// On its first call it also evaluates the loss on two examples at once, to refuse one that reduces over the batch.
[[nodiscard]] std::unique_ptr<ClippingEngine> make_loop_engine();

}  // namespace ripieno
