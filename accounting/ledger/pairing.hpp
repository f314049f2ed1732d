#pragma once

#include <optional>
#include <ripieno/accounting/engine/process.hpp>
#include <ripieno/accounting/ledger/sampler_plan.hpp>
#include <ripieno/accounting/mechanisms/encoder.hpp>
#include <span>

namespace ripieno {

// Which accounting is valid for which sampler with which noise. A plan whose sampler has none with its noise is
// refused.

/// Noise and sampler of a plan.
struct Pairing {
  SamplingSchedule sampling;
  double noise_multiplier = 0;
  std::optional<accounting::Strategy> strategy{};  ///< of correlated noise; none where it is independent

  /// Steps are not independent releases: only all of them, with one participation pattern, can be accounted for.
  [[nodiscard]] bool has_pattern() const { return strategy.has_value() || !sampling.steps_are_independent(); }
};

/// UsageError, with what to use in its place, for a sampler and noise that have no accounting together.
void check_pairing(const Pairing& pairing);

/// What was released when these steps were, some perhaps twice after a crash, all under one participation pattern where
/// there is one. Rows of independent steps count by their number alone. PrivacyError where it cannot be computed.
[[nodiscard]] accounting::Process released(const Pairing& pairing, std::span<const accounting::Encoder::Release> rows);

/// The same for the first `records` steps of an undisturbed run.
[[nodiscard]] accounting::Process released(const Pairing& pairing, std::int64_t records);

/// Rows in which a run that may have been resumed published: a stretch that goes on where the last one ended joins it.
[[nodiscard]] std::vector<accounting::Encoder::Release> joined(std::span<const accounting::Encoder::Release> stretches);

}  // namespace ripieno
