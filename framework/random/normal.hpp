#pragma once

#include <cstdint>
#include <span>

#include <ripieno/framework/random/key.hpp>

namespace ripieno {

// Independent normal deviates with mean 0. The value at a position is a pure function of (key, step, position) and the
// standard deviation, the same bits for any slice, number of threads, instruction set and floating-point mode of the
// caller: every rank makes the same noise, or any part of it (invariant P11). Words come from ChaCha20, so without the
// key the values cannot be told from true ones; the normal law holds down to tail probabilities of 2^-128.
//
// One (key, step, position) must never serve two different values: their difference would be free of noise (P4).
//
// `out[i]` receives the deviate at `position + i`. All throw UsageError unless position + size <= 2^63, threads >= 1
// and 0 <= stddev <= the bound of the type. Positions that are multiples of 128 are the fastest to start at.

/// Rounded once, from double. stddev <= 2^120.
void fill_normal(std::span<float> out, const Key& key, std::uint64_t step, std::uint64_t position, double stddev,
                 int threads = 1);
/// Not rounded: do not release these, as their low bits have patterns that reveal the words they were made of. stddev
/// <= 2^1000.
void fill_normal(std::span<double> out, const Key& key, std::uint64_t step, std::uint64_t position, double stddev,
                 int threads = 1);
/// Rounded to the nearest integer, ties to even. stddev <= 2^27, so that the largest deviate of 13.4 stddev fits.
void fill_normal(std::span<std::int32_t> out, const Key& key, std::uint64_t step, std::uint64_t position, double stddev,
                 int threads = 1);
/// inout[i] += the float deviate of `fill_normal`, one more rounding. stddev <= 2^120.
void add_normal(std::span<float> inout, const Key& key, std::uint64_t step, std::uint64_t position, double stddev,
                int threads = 1);

}  // namespace ripieno
