#include <array>
#include <bit>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/distributed/sync_states.hpp>

namespace ripieno {

FixedClipState sync_state(const FixedClipState& state, const Communicator& /*communicator*/) { return state; }

GaussianNoiseState sync_state(const GaussianNoiseState& state, const Communicator& communicator) {
  const OperationScope scope("sync GaussianNoiseState");
  const auto fingerprint = std::bit_cast<std::int64_t>(state.key_fingerprint);
  std::array<std::int64_t, 4> extremes{state.step, fingerprint, ~state.step, ~fingerprint};
  communicator.allreduce_max(std::span<std::int64_t>(extremes));
  if (extremes[1] != ~extremes[3]) {
    throw CommError("the ranks' noise states belong to different keys", {},
                    "share one key, or sum noise of independent keys with NoiseScope::per_rank");
  }
  if (extremes[0] != ~extremes[2]) {
    throw CommError("the ranks' noise states are at different steps",
                    "from " + std::to_string(~extremes[2]) + " to " + std::to_string(extremes[0]),
                    "call the noise function once a step on every rank");
  }
  return state;
}

}  // namespace ripieno
