#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ripieno {

// How far floating-point sums can stretch the sensitivity of a step (invariant P5).
//
// A step releases s + noise, where s is the computed sum of the clipped contributions v_i, |v_i| <= C, of the examples
// drawn. Let S be a draw that holds record r and S' the same draw without it, and write s(S) = sum_{i in S} v_i + e(S).
// The exact sums differ by |v_r| <= C, so
//     |s(S) - s(S')| <= C + |e(S) - e(S')|,
// and noise with standard deviation z C (1 + rho) is as good as noise multiplier z over exact sums when
// rho C >= |e(S) - e(S')| whatever the v_i are. Write u = 2^-24, v = 2^-53, gamma_n(u) = n u / (1 - n u); a sum of n
// numbers in any order, products included, errs by at most gamma_n(u) times the sum of their magnitudes (Higham 2002,
// section 4.2), and that holds for L2 norms of vectors by the triangle inequality.
//
// 1. Microbatches. The ids are divided into blocks of `block_size` consecutive ids, and no microbatch crosses a border.
//    While each block's draw has at most m = `microbatch` examples it is one microbatch (two where ranks meet inside
//    it), so removing r changes the members of one microbatch only: the float32 result of every other one has equal
//    bits in both runs and no part in e(S) - e(S'). The one that changed errs by at most gamma_m(u) m C in each run.
// 2. Across microbatches, float64 sums on each rank, of at most k = min(n_max, blocks + ranks) terms whose norms add up
//    to A = n_max C (1 + gamma_m(u)) at most: gamma_k(v) A in each run, where n_max = `max_draw` bounds the draw.
// 3. The wire. One cast to float32 and W - 1 additions in any order: gamma_{W+1}(u) A (1 + gamma_k(v)); with a wide
// wire
//    the same with v. A cast may also underflow, by 2^-150 for each of at most 2^42 coordinates on each of W ranks.
// rho = 2 (1 + 2 + 3) / C, rounded up, with W rounded up to a number that few changes of the world size cross, so that
// the noise does not depend on it there (invariant P11). What happens to s after the noise is post-processing.
//
// Outside the assumptions on counts the bound says nothing. Pr[some block of some step draws more than m, or some step
// draws more than n_max] <= `tail` by Chernoff's bound and a union over blocks and steps, and a mechanism that is
// (epsilon, delta)-private but for an event of that probability is (epsilon, delta + (1 + e^epsilon) tail)-private.
// Chernoff's bound knows of a draw only the mean, and that ids are independent; it is not less for fixed draws, which
// have no variance. Under correlated noise (P4) all of it holds step by step: a step in which r takes no part has equal
// bits in both runs. Where a batch is truncated, r may put another record in its place: twice the norm, and at most
// twice e(S) - e(S').

// A reproducible sum keeps point 1, but ranks meet at block borders, and replaces 2 and 3: the float32 sum of a
// microbatch is rounded to whole multiples of a step L, a power of two, which add up exactly in int64 in any order.
// Only the microbatch of r is rounded differently in the two runs, by at most L/2 in each of P coordinates in each of
// them: rho = 2 gamma_m(u) m + L sqrt(P) / C. The noise is whole multiples of L too: rounding the sum of an integer and
// a Gaussian is rounding the Gaussian, so the release is the rounded output of a Gaussian mechanism.
// Where the clipping norm changes from step to step, so does L, which is a function of the norm alone: a norm is public
// before its step begins, being made from noisy counts. rho then takes the largest L / C of any norm.

/// How the ranks' sums become one.
enum class Reduction {
  fast,          ///< floating point; the last bits depend on the number of ranks
  reproducible,  ///< integers on a lattice; the same bits for any number of ranks and threads
};

/// What the rounding bound depends on.
struct RoundingProblem {
  std::int64_t num_examples = 0;
  double sample_rate = 0;  ///< chance of each id to be drawn at a step; 1 draws everything
  /// Samplers that take every p-th id draw from up to this many more ids of a block than the rate stands for.
  std::int64_t uneven_ids = 0;
  std::int64_t steps = 0;    ///< that the tail is summed over
  double clipping_norm = 0;  ///< the smallest, where it changes from step to step
  std::int64_t max_microbatch = 0;
  int world_size = 1;
  Reduction reduction = Reduction::fast;
  // For reproducible sums only:
  double noise_multiplier = 0;
  std::int64_t num_parameters = 0;
  bool norm_changes = false;  ///< and the step of the lattice with it
};

/// How sums are formed.
struct SumLayout {
  std::int64_t microbatch = 0;  ///< most examples in one microbatch
  std::int64_t block_size = 0;  ///< microbatches are cut inside blocks of this many consecutive ids
  std::int64_t max_draw = 0;    ///< examples in one step's draw, but for `tail`
  bool wide_wire = false;       ///< sums travel and are released in float64
  double lattice_step = 0;      ///< sums are whole multiples of it, at the least norm; 0: they are floating point

  friend bool operator==(const SumLayout&, const SumLayout&) = default;
};

/// The largest rho that a plan accepts.
inline constexpr double k_max_rho = 0.01;

/// rho of the proof above, and the probability with which its counts do not hold.
[[nodiscard]] double rounding_rho(const RoundingProblem& problem, const SumLayout& layout);
[[nodiscard]] double rounding_tail(const RoundingProblem& problem, const SumLayout& layout);

/// The step of a reproducible sum's lattice: the power of two in (2^-23, 2^-22] of the standard deviation that exact
/// sums would need, or of the clipping norm where there is no noise. The same double on every machine.
[[nodiscard]] double lattice_step(double noise_multiplier, double clipping_norm);

struct ChosenLayout {
  SumLayout layout;
  std::vector<std::string> notes;  ///< sentences that say where the choice departs from what was asked, and why
};

/// The layout with the largest microbatches, and for them the largest blocks, whose rho is at most `k_max_rho` and
/// whose tail is at most `tail_target`. Smaller microbatches are tried first, down to 32; then the wide wire.
/// UsageError where no layout will do, or where a sum could overflow. Reproducible sums have at least 16 to 64
/// blocks, the more the larger the batch, so that they can be shared out to so many ranks.
[[nodiscard]] ChosenLayout choose_layout(const RoundingProblem& problem, double tail_target);

}  // namespace ripieno
