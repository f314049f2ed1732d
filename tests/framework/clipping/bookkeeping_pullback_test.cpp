#include <gtest/gtest.h>

#include <algorithm>
#include <ripieno/framework/clipping/graph_plan.hpp>
#include <ripieno/framework/clipping/graph_pullback.hpp>
#include <ripieno/framework/clipping/graph_trace.hpp>

#include "bookkeeping_cases.hpp"

namespace ripieno::bookkeeping {
namespace {

using cases::Case;
using cases::Tensors;

struct Planned {
  Graph graph;
  Plan plan;
};

Planned planned(const Case& c) {
  const auto traced = [&](std::int64_t n) {
    Tensors batch;
    for (const at::Tensor& tensor : c.batch) batch.push_back(tensor.narrow(0, 0, n));
    return trace(c.loss_fn(), c.tree(at::kDouble), batch, Recurrence::fused);
  };
  const Graph two = traced(2);
  Planned result{traced(3), {}};
  result.plan = make_plan(two, result.graph, c.tree(at::kDouble).paths());
  return result;
}

/// Random gradients of three examples at all cuts.
Tensors gradients_at_cuts(const Plan& plan) {
  Tensors result;
  for (const Cut& cut : plan.cuts) result.push_back(at::randn({3, c10::multiply_integers(cut.shape)}, at::kDouble));
  return result;
}

const Case& served(const std::string& name) {
  return *std::ranges::find_if(cases::served(), [&](const Case& c) { return c.name == name; });
}

TEST(PullBack, AllExamplesAtOnceGiveWhatEachGivesAlone) {
  at::manual_seed(41);
  for (const char* name : {"LowRankUpdate", "ChunkedWeight", "SpectralScale", "RelativePositionBias", "WholeAndSlice",
                           "WeightSharedWithItsSquare"}) {
    auto [graph, plan] = planned(served(name));
    ASSERT_TRUE(plan.pulls_back_at_once) << name;
    const Tensors at_cuts = gradients_at_cuts(plan);
    const Tensors together = pull_back(graph, plan, at_cuts);
    plan.pulls_back_at_once = false;
    const Tensors alone = pull_back(graph, plan, at_cuts);
    int leaves = 0;
    for (std::size_t leaf = 0; leaf < alone.size(); ++leaf) {
      ASSERT_EQ(alone[leaf].defined(), together[leaf].defined()) << name << ", leaf " << leaf;
      if (!alone[leaf].defined()) continue;
      ++leaves;
      EXPECT_LE((together[leaf] - alone[leaf]).abs().max().item<double>(), 1e-12) << name << ", leaf " << leaf;
    }
    EXPECT_GT(leaves, 0) << name;
  }
}

TEST(PullBack, AnOperationWithoutARuleForBatchesIsTakenExampleByExample) {
  const auto [graph, plan] = planned(served("WeightNormFused"));
  EXPECT_FALSE(plan.pulls_back_at_once);
}

TEST(PullBack, LeavesParametersThatNothingComputesFromAlone) {
  const auto [graph, plan] = planned(served("RelativePositionBias"));
  const Tensors leaves = pull_back(graph, plan, gradients_at_cuts(plan));
  EXPECT_TRUE(leaves[0].defined());
  EXPECT_FALSE(leaves[1].defined());
}

}  // namespace
}  // namespace ripieno::bookkeeping
