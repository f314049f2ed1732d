#include <array>
#include <bit>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/distributed/sync_states.hpp>

namespace ripieno {

FixedClipState sync_state(const FixedClipState& state, const Communicator& /*communicator*/) { return state; }

namespace {

/// What the bounds of a first step are, in 64 bits; other bits for other bounds, and 0 for none.
std::int64_t fingerprint_of(const std::vector<double>& bounds) {
  if (bounds.empty()) return 0;
  const Sha256::Digest digest = sha256({reinterpret_cast<const char*>(bounds.data()), bounds.size() * sizeof(double)});
  std::int64_t bits = 0;
  std::memcpy(&bits, digest.data(), sizeof bits);
  return bits;
}

/// Collective. CommError on every rank unless all have the same of each.
void require_same(std::int64_t step, std::uint64_t key_fingerprint, std::int64_t bounds,
                  const Communicator& communicator) {
  const auto fingerprint = std::bit_cast<std::int64_t>(key_fingerprint);
  std::array<std::int64_t, 6> extremes{step, fingerprint, ~step, ~fingerprint, bounds, ~bounds};
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
  if (extremes[4] != ~extremes[5]) {
    throw CommError("the ranks' correlated noise was made for different clipping norms", {},
                    "clip every step to one norm on every rank");
  }
}

}  // namespace

GaussianNoiseState sync_state(const GaussianNoiseState& state, const Communicator& communicator) {
  const OperationScope scope("sync GaussianNoiseState");
  require_same(state.step, state.key_fingerprint, 0, communicator);
  return state;
}

MFNoiseState sync_state(const MFNoiseState& state, const Communicator& communicator) {
  const OperationScope scope("sync MFNoiseState");
  require_same(state.step, state.key_fingerprint, fingerprint_of(state.bounds), communicator);
  return state;
}

SecondMomentMFNoiseState sync_state(const SecondMomentMFNoiseState& state, const Communicator& communicator) {
  MFNoiseState first = sync_state(state.first, communicator);
  return {std::move(first), sync_state(state.second, communicator)};
}

}  // namespace ripieno
