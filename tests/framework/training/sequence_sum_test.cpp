#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/sequence_sum.hpp>

namespace ripieno {
namespace {

using testing::ElementsAre;

constexpr std::int64_t k_examples = 2000, k_words = 30, k_padding = 29;

PrivacyPlan plan_of(Reduction reduction = Reduction::fast) {
  return PrivacyPlan({.num_examples = k_examples,
                      .dataset_id = "6f2c7a52-6f3e-4f0e-9b9b-0d3f0f3b7a11",
                      .expected_batch = 300,
                      .steps = 10,
                      .noise_multiplier = 1.0,
                      .clipping_norm = 0.5,
                      .delta = 1e-5,
                      .max_microbatch = 64,
                      .reduction = reduction,
                      .num_parameters = 3 * k_words});
}

/// Sequences of these ids: lengths follow a log-normal law, as texts' do, and nothing depends on the other ids.
Batch sequences(const std::vector<std::int64_t>& ids) {
  Batch batch;
  batch.ids = ids;
  std::vector<std::vector<std::int64_t>> tokens;
  for (const std::int64_t id : ids) {
    std::mt19937 engine(static_cast<unsigned>(id));
    const double length = std::exp(2.5 + 0.8 * std::normal_distribution<double>()(engine));
    batch.lengths.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(length), 0, 200));
    std::vector<std::int64_t>& row = tokens.emplace_back(static_cast<std::size_t>(batch.lengths.back()));
    std::ranges::generate(row, [&] { return static_cast<std::int64_t>(engine() % (k_words - 1)); });
  }
  const std::int64_t longest = std::max<std::int64_t>(1, *std::ranges::max_element(batch.lengths));
  for (std::vector<std::int64_t>& row : tokens) row.resize(static_cast<std::size_t>(longest), k_padding);
  batch.x = at::empty({static_cast<std::int64_t>(ids.size()), longest}, at::kLong);
  batch.y = at::empty({static_cast<std::int64_t>(ids.size())}, at::kLong);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    batch.x[static_cast<std::int64_t>(i)].copy_(at::tensor(tokens[i], at::kLong));
    batch.y[static_cast<std::int64_t>(i)] = ids[i] % 3;
  }
  return batch;
}

std::vector<std::int64_t> drawn_ids(unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; id < k_examples; ++id)
    if (engine() % 100 < 15) ids.push_back(id);
  return ids;
}

/// A bag of words, which does not see padding.
at::Tensor bag_loss(const PyTree& p, std::span<const at::Tensor> batch) {
  const at::Tensor words = at::embedding(p["words"], batch[0]);
  const at::Tensor counts = batch[0].ne(k_padding).unsqueeze(2).to(words.scalar_type());
  return at::cross_entropy_loss((words * counts).sum(1), batch[1], {}, at::Reduction::None);
}

PyTree params() {
  at::manual_seed(3);
  return {{"words", 0.1 * at::randn({k_words, 3})}};
}

std::int64_t padded(const std::vector<std::vector<SequencePiece>>& blocks) {
  std::int64_t tokens = 0;
  for (const auto& pieces : blocks)
    for (const SequencePiece& piece : pieces) tokens += static_cast<std::int64_t>(piece.rows.size()) * piece.width;
  return tokens;
}

TEST(SequenceSum, SortsEachBlockByLengthThenIdAndCutsItWhereLengthsGrow) {
  const PrivacyPlan plan = plan_of();
  std::vector<std::int64_t> ids(20), lengths;
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
  Batch batch;
  batch.ids = ids;
  for (const std::int64_t id : ids) batch.lengths.push_back(id % 2 == 0 ? 100 : 10);
  ASSERT_GE(plan.block_size(), 20);
  const auto blocks = sequence_pieces(plan, batch);
  ASSERT_EQ(blocks.size(), 1U);
  ASSERT_EQ(blocks[0].size(), 2U);
  EXPECT_THAT(blocks[0][0].rows, ElementsAre(1, 3, 5, 7, 9, 11, 13, 15, 17, 19));
  EXPECT_EQ(blocks[0][0].width, 10);
  EXPECT_THAT(blocks[0][1].rows, ElementsAre(0, 2, 4, 6, 8, 10, 12, 14, 16, 18));
  EXPECT_EQ(blocks[0][1].width, 100);
}

TEST(SequenceSum, LittleOfWhatIsComputedIsPadding) {
  const Batch batch = sequences(drawn_ids(1));
  std::int64_t tokens = 0;
  for (const std::int64_t length : batch.lengths) tokens += length;
  const std::int64_t by_draw = batch.x.numel();
  const std::int64_t by_length = padded(sequence_pieces(plan_of(), batch));
  EXPECT_GT(by_draw, 5 * tokens) << "padded to the longest of the draw";
  EXPECT_LT(by_length, tokens + tokens * 6 / 10);
}

TEST(SequenceSum, Invariant_P5_WithoutOneExampleAllOtherBlocksAreComputedAlike) {
  const PrivacyPlan plan = plan_of();
  const std::vector<std::int64_t> ids = drawn_ids(2);
  const Batch whole = sequences(ids);
  const auto by_ids = [](const Batch& batch, const std::vector<SequencePiece>& pieces) {
    std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> named;
    for (const SequencePiece& piece : pieces) {
      std::vector<std::int64_t> members;
      for (const std::int64_t row : piece.rows) members.push_back(batch.ids[static_cast<std::size_t>(row)]);
      named.emplace_back(piece.width, members);
    }
    return named;
  };
  const auto longest = std::ranges::max_element(whole.lengths) - whole.lengths.begin();
  for (const std::ptrdiff_t removed : {std::ptrdiff_t{0}, longest, std::ssize(ids) - 1}) {
    std::vector<std::int64_t> others = ids;
    others.erase(others.begin() + removed);
    const Batch without = sequences(others);
    const auto before = sequence_pieces(plan, whole), after = sequence_pieces(plan, without);
    ASSERT_EQ(before.size(), after.size());
    const std::int64_t changed = ids[static_cast<std::size_t>(removed)] / plan.block_size();
    for (std::size_t block = 0; block < before.size(); ++block) {
      const std::int64_t index = whole.ids[static_cast<std::size_t>(before[block][0].rows[0])] / plan.block_size();
      if (index == changed) continue;
      EXPECT_EQ(by_ids(whole, before[block]), by_ids(without, after[block])) << "block " << index;
    }
  }
}

TEST(SequenceSum, EqualsTheClippedGradientsOneByOne) {
  const PrivacyPlan plan = plan_of();
  std::vector<std::int64_t> ids = drawn_ids(3);
  ids.resize(60);  // some blocks' worth: the loop takes its time
  const Batch batch = sequences(ids);
  const PyTree p = params();
  const auto engine = make_engine(EngineKind::automatic), loop = make_engine(EngineKind::loop);
  const ClippedSum sum = clipped_sum(*engine, bag_loss, plan, p, batch, plan.clipping_norm());
  const PyTree exact = p.map([](const at::Tensor& leaf) { return leaf.to(at::kDouble); });
  std::vector<std::int64_t> one_by_one(batch.ids.size() + 1);
  for (std::size_t i = 0; i < one_by_one.size(); ++i) one_by_one[i] = static_cast<std::int64_t>(i);
  const ClippedSum expected = clipped_sum(*loop, bag_loss, exact, std::array{batch.x, batch.y}, one_by_one,
                                          ClippingRule(plan.clipping_norm()), at::kDouble);
  EXPECT_EQ(sum.flat.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(sum.flat.to(at::kDouble), expected.flat, 1e-5, 1e-5));
  EXPECT_EQ(sum.batch_size, expected.batch_size);
  EXPECT_EQ(sum.num_clipped, expected.num_clipped);
  EXPECT_GT(sum.num_clipped, 0);
  EXPECT_EQ(sum.group_num_clipped, expected.group_num_clipped);
  EXPECT_NEAR(sum.loss_sum, expected.loss_sum, 1e-3);
}

TEST(SequenceSum, AReproducibleSumIsTheSameForRanksThatShareTheDraw) {
  at::set_num_threads(1);
  const PrivacyPlan plan = plan_of(Reduction::reproducible);
  const std::vector<std::int64_t> ids = drawn_ids(4);
  const PyTree p = params();
  const auto engine = make_engine(EngineKind::automatic);
  const at::Tensor alone = lattice_sum(*engine, bag_loss, plan, p, sequences(ids), plan.clipping_norm()).flat;
  for (const std::int64_t ranks : {2, 3}) {
    at::Tensor shared = at::zeros_like(alone);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t blocks = (k_examples + plan.block_size() - 1) / plan.block_size();
      const auto border = [&](std::int64_t r) { return r * blocks / ranks * plan.block_size(); };
      std::vector<std::int64_t> mine;
      std::ranges::copy_if(ids, std::back_inserter(mine), [&](std::int64_t id) {
        return id >= border(rank) && (id < border(rank + 1) || rank + 1 == ranks);
      });
      shared += lattice_sum(*engine, bag_loss, plan, p, sequences(mine), plan.clipping_norm()).flat;
    }
    EXPECT_TRUE(at::equal(alone, shared)) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace ripieno
