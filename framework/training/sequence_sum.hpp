#pragma once

#include <ATen/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <ripieno/framework/sampling/batch.hpp>
#include <vector>

namespace ripieno {

// Sequences of different lengths, computed with little padding under the plan's proof of rho (rounding.hpp). A
// microbatch of that proof, one block's draw of at most m examples, is computed in pieces here, cut by length, whose
// float32 sums are added in float64. Pieces of n_1 + n_2 + ... <= m examples, none with all m, err by at most
//     sum_i gamma_{n_i}(u) n_i C + gamma_m(v) 2 m C <= gamma_{m-1}(u) m C + gamma_m(v) 2 m C <= gamma_m(u) m C,
// as gamma_m(u) - gamma_{m-1}(u) >= u > 2 gamma_m(v) for m < 2^27: the bound of its point 1 holds for them too, and
// what crosses blocks are sums of blocks, as many as in its point 2.

/// Sequences of one block of ids that are computed together.
struct SequencePiece {
  std::vector<std::int64_t> rows;  ///< of the batch, by length, then by id
  std::int64_t width = 1;          ///< length of the longest, at least 1: what the others are padded to
};

/// The draw, block by block of the plan's ids; each block's sequences sorted by length and cut where they grow by more
/// than a quarter, eight to a piece at least, so that little of what is computed is padding. A block's pieces
/// depend on its own examples alone: with or without one of them, all other blocks are computed alike (rounding.hpp,
/// point 1). UsageError unless `batch.lengths` has one length for each example.
[[nodiscard]] std::vector<std::vector<SequencePiece>> sequence_pieces(const PrivacyPlan& plan, const Batch& batch);

/// visit(sum) for the clipped sum of each block in turn: its pieces, each padded no further than its width and computed
/// from tensors of its own, added in float64 from the shortest on.
void for_each_block_sum(ClippingEngine& engine, const LossFn& loss, const PrivacyPlan& plan, const PyTree& params,
                        const Batch& batch, const ClippingRule& rule,
                        const std::function<void(const ClippedSum& block)>& visit);

/// The clipped sum over a draw of at least one sequence: block by block in float64, cast once to `sum_dtype`. No part
/// of it is final before all of it is, which `on_final` is told then.
[[nodiscard]] ClippedSum sequence_sum(ClippingEngine& engine, const LossFn& loss, const PrivacyPlan& plan,
                                      const PyTree& params, const Batch& batch, const ClippingRule& rule,
                                      at::ScalarType sum_dtype, const OnFinal& on_final);

}  // namespace ripieno
