#pragma once

#include <ripieno/framework/clipping/clipped_grad.hpp>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/distributed/sync.hpp>
#include <ripieno/framework/noise/mf_second_moment_noise.hpp>

namespace ripieno {

// What `distributed::sync` makes of the library's states. Each is collective.

/// Nothing is communicated: clipping to a fixed norm keeps nothing.
[[nodiscard]] FixedClipState sync_state(const FixedClipState& state, const Communicator& communicator);

/// CommError on every rank unless all are at one step and, where known, of one key. Returns the state as it is.
[[nodiscard]] GaussianNoiseState sync_state(const GaussianNoiseState& state, const Communicator& communicator);

/// The same, and CommError unless the bounds of the first step are equal, or known to no rank. Buffers are not
/// compared.
[[nodiscard]] MFNoiseState sync_state(const MFNoiseState& state, const Communicator& communicator);
/// The gradients' stream first, then that of the squares.
[[nodiscard]] SecondMomentMFNoiseState sync_state(const SecondMomentMFNoiseState& state,
                                                  const Communicator& communicator);

}  // namespace ripieno
