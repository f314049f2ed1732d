#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/training/sequence_sum.hpp>

namespace ripieno {
namespace {

constexpr std::size_t k_least_rows = 8;

/// Whether a sequence of `length` would make `piece`, which begins with one of length `shortest`, mostly padding.
bool stretches(const SequencePiece& piece, std::int64_t shortest, std::int64_t length) {
  return piece.rows.size() >= k_least_rows && 4 * length > 5 * std::max<std::int64_t>(shortest, 1);
}

std::vector<SequencePiece> pieces_of(std::vector<std::int64_t> rows, const std::vector<std::int64_t>& lengths,
                                     std::int64_t most_rows) {
  const auto length = [&](std::int64_t row) { return lengths[static_cast<std::size_t>(row)]; };
  std::ranges::stable_sort(rows, {}, length);  // rows ascend as their ids do, so that equal lengths stay in that order
  std::vector<SequencePiece> pieces;
  for (const std::int64_t row : rows) {
    const bool fits = !pieces.empty() && static_cast<std::int64_t>(pieces.back().rows.size()) < most_rows &&
                      !stretches(pieces.back(), length(pieces.back().rows.front()), length(row));
    if (!fits) pieces.emplace_back();
    pieces.back().rows.push_back(row);
    pieces.back().width = std::max<std::int64_t>(1, length(row));
  }
  return pieces;
}

void add(const ClippedSum& part, ClippedSum& total) {
  if (total.flat.defined()) {
    total.flat.add_(part.flat);
  } else {
    total.flat = part.flat.clone();
  }
  add_counts(part, total);
}

}  // namespace

std::vector<std::vector<SequencePiece>> sequence_pieces(const PrivacyPlan& plan, const Batch& batch) {
  if (batch.lengths.size() != batch.ids.size()) {
    throw UsageError("a batch of " + std::to_string(batch.ids.size()) + " sequences gives " +
                     std::to_string(batch.lengths.size()) + " lengths");
  }
  std::vector<std::vector<SequencePiece>> blocks;
  for (std::size_t begin = 0; begin < batch.ids.size();) {
    const std::int64_t block = batch.ids[begin] / plan.block_size();
    std::size_t end = begin;
    while (end < batch.ids.size() && batch.ids[end] / plan.block_size() == block) ++end;
    std::vector<std::int64_t> rows(end - begin);
    std::iota(rows.begin(), rows.end(), static_cast<std::int64_t>(begin));
    blocks.push_back(pieces_of(std::move(rows), batch.lengths, plan.microbatch()));
    begin = end;
  }
  return blocks;
}

void for_each_block_sum(ClippingEngine& engine, const LossFn& loss, const PrivacyPlan& plan, const PyTree& params,
                        const Batch& batch, const ClippingRule& rule,
                        const std::function<void(const ClippedSum& block)>& visit) {
  for (const std::vector<SequencePiece>& pieces : sequence_pieces(plan, batch)) {
    ClippedSum block;
    for (const SequencePiece& piece : pieces) {
      const at::Tensor rows = at::tensor(piece.rows, at::kLong).to(batch.x.device());
      const std::array taken{batch.x.narrow(1, 0, piece.width).index_select(0, rows), batch.y.index_select(0, rows)};
      const std::array<std::int64_t, 2> all{0, rows.numel()};
      add(clipped_sum(engine, loss, params, taken, all, rule, at::kDouble), block);
    }
    visit(block);
  }
}

ClippedSum sequence_sum(ClippingEngine& engine, const LossFn& loss, const PrivacyPlan& plan, const PyTree& params,
                        const Batch& batch, const ClippingRule& rule, at::ScalarType sum_dtype,
                        const OnFinal& on_final) {
  ClippedSum sum;
  for_each_block_sum(engine, loss, plan, params, batch, rule, [&](const ClippedSum& block) { add(block, sum); });
  sum.flat = sum.flat.to(sum_dtype);
  on_final(sum.flat, sum.flat.numel());
  return sum;
}

}  // namespace ripieno
