#pragma once

#include <ripieno/accounting/engine/process.hpp>
#include <ripieno/accounting/mechanisms/sensitivity.hpp>

namespace ripieno::accounting {

// Matrix-factorisation mechanisms: C G + Z is *one* Gaussian release of G with sensitivity `sensitivity(C)`; all
// composition over steps is inside that number. Adjacency: zero-out (an example's gradients become zero). With a
// sampler whose batches do not move when an example is removed, such as Poisson or balls-in-bins, also add/remove; with
// batches in a fixed order not. Under replace-one all of it doubles.

/// Noise multiplier `z` on rows of C (noise is z clipping norms of white noise, correlated by C^-1), for batches in
/// which an example takes part as `schema` allows. Cannot be subsampled: the sampler has fixed the schema.
[[nodiscard]] Process mf_gaussian(double z, const Encoder& encoder, const ParticipationSchema& schema);

/// The same where C is banded with at most `bands` bands and the data are dealt once into `bands` parts, step t drawing
/// each example of part t mod `bands` with chance `sample_rate` (Choquette-Choo et al. 2023b, theorem 4): a composition
/// of ceil(steps / bands) Poisson-subsampled Gaussians with multiplier z over the largest column norm. Add/remove.
/// UsageError where C has more bands; PrivacyError after a resume that published rows twice.
[[nodiscard]] Process mf_gaussian_cyclic_poisson(double z, const Encoder& encoder, std::int64_t bands,
                                                 double sample_rate);

/// A pair of streams, gradients and their squares, with noise of their own: the norms that one example's contribution
/// has at most, and the deviations of the white noise.
struct PairedStreams {
  Encoder first, second;
  double first_norm = 1, second_norm = 1;
  double first_stddev = 0, second_stddev = 0;
};

/// Deviations that share noise multiplier `z` over the streams: with c the largest column norm of an encoder, m the
/// norm and S = m_1 c_1 + m_2 c_2, stream s gets z / c_1 sqrt(m_s c_s S). One participation then costs c_1 / z.
[[nodiscard]] PairedStreams share_noise(double z, PairedStreams streams);

/// The joint Gaussian of both streams: mu is the sensitivity of both encoders, each scaled by norm over deviation, one
/// above the other. It is not that of the first alone, unless the second's grows no faster with participations.
[[nodiscard]] Process paired_mf_gaussian(const PairedStreams& streams, const ParticipationSchema& schema);

}  // namespace ripieno::accounting
