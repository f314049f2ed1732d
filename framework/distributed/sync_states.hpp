#pragma once

#include <ripieno/framework/clipping/clipped_grad.hpp>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/distributed/sync.hpp>
#include <ripieno/framework/noise/gaussian_noise.hpp>

namespace ripieno {

// What `distributed::sync` makes of the library's states. Each is collective.

/// Nothing is communicated: clipping to a fixed norm keeps nothing.
[[nodiscard]] FixedClipState sync_state(const FixedClipState& state, const Communicator& communicator);

/// CommError on every rank unless all are at one step and, where known, of one key. Returns the state as it is.
[[nodiscard]] GaussianNoiseState sync_state(const GaussianNoiseState& state, const Communicator& communicator);

}  // namespace ripieno
