// Views of images, and losses that are means over them.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/training/inputs.hpp>

namespace ripieno {
namespace {

std::vector<std::int64_t> first_ids(std::int64_t n) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

/// The image [..., height, width] moved over zeros and then flipped, by Torch's own means.
at::Tensor view_by_definition(const at::Tensor& image, bool flip, std::int64_t down, std::int64_t right) {
  const at::Tensor moved = at::constant_pad_nd(image, {right, -right, down, -down});
  return flip ? moved.flip(-1) : moved;
}

TEST(Augmentation, ViewsAreFlippedAndMovedAndEveryWayIsEquallyLikely) {
  const at::Tensor image = at::arange(1, 2 * 5 * 6 + 1).to(at::kFloat).view({2, 5, 6});
  std::vector<at::Tensor> ways;
  for (const bool flip : {false, true}) {
    for (const std::int64_t down : {-1, 0, 1}) {
      for (const std::int64_t right : {-1, 0, 1}) ways.push_back(view_by_definition(image, flip, down, right));
    }
  }
  const std::int64_t n = 300, views = 6;
  const Augmentation augmentation({.views = views, .flip = true, .shift = 1, .seed = 5});
  const at::Tensor all = augmentation(image.expand({n, 2, 5, 6}), first_ids(n), 3).flatten(0, 1);
  std::vector<int> counts(ways.size());
  for (std::int64_t i = 0; i < n * views; ++i) {
    for (std::size_t way = 0; way < ways.size(); ++way) counts[way] += at::equal(all[i], ways[way]) ? 1 : 0;
  }
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), n * views) << "some view is none of the eighteen";
  for (const int count : counts) EXPECT_NEAR(count, 100, 49) << "five standard deviations";
}

TEST(Augmentation, Invariant_P1_ViewsOfAnExampleDoNotDependOnTheOthers) {
  const at::Tensor x = at::randn({9, 1, 8, 8});
  const Augmentation augmentation({.views = 3, .flip = true, .shift = 2, .seed = 1});
  const at::Tensor all = augmentation(x, first_ids(9), 7);
  EXPECT_EQ(all.sizes().vec(), (std::vector<std::int64_t>{9, 3, 1, 8, 8}));
  const std::vector<std::int64_t> some{2, 3, 8};
  EXPECT_TRUE(
      at::equal(augmentation(x.index_select(0, at::tensor(some)), some, 7), all.index_select(0, at::tensor(some))));
  EXPECT_FALSE(at::equal(augmentation(x, first_ids(9), 8), all)) << "other views at the next step";
  EXPECT_EQ(augmentation(x.slice(0, 0, 0), {}, 7).sizes().vec(), (std::vector<std::int64_t>{0, 3, 1, 8, 8}));
}

TEST(Augmentation, AShiftBeyondTheImageLeavesZeros) {
  const Augmentation augmentation({.views = 50, .shift = 100});
  const at::Tensor views = augmentation(at::ones({1, 2, 2}), std::vector<std::int64_t>{0}, 0);
  EXPECT_GT((views.sum({2, 3}) == 0).sum().item<std::int64_t>(), 40);
}

TEST(Augmentation, WhatIsNoImageIsRefused) {
  const Augmentation augmentation({.flip = true});
  EXPECT_THROW((void)augmentation(at::zeros({3, 4}), first_ids(3), 0), UsageError);
  EXPECT_THROW((void)augmentation(at::zeros({3, 4, 4}, at::kLong), first_ids(3), 0), UsageError);
  EXPECT_THROW(Augmentation({.views = 0}), UsageError);
  EXPECT_THROW(Augmentation({.shift = -1}), UsageError);
}

/// Images, labels and what a run makes of them.
struct AugmentedRun {
  RunInputs inputs;
  std::vector<at::Tensor> batch;
};

AugmentedRun small_run(const std::string& model, const std::map<std::string, std::string>& args) {
  AugmentedRun run;
  run.inputs.model = make_model({.name = model, .args = args, .example_shape = {1, 28, 28}, .num_classes = 10});
  run.inputs.objective = make_objective("cross-entropy");
  run.inputs.augmentation.emplace(AugmentationOptions{.views = 3, .flip = true, .shift = 3});
  at::manual_seed(2);
  at::Tensor x = (*run.inputs.augmentation)(at::rand({5, 1, 28, 28}), first_ids(5), 0);
  if (const auto map = training_map(run.inputs)) x = map(x);
  run.batch = {x, at::randint(10, {5}, at::kLong)};
  return run;
}

/// The sum over examples of the clipped mean of the gradients of their views, each differentiated by itself.
at::Tensor clipped_means(const AugmentedRun& run, double clipping_norm) {
  const Model& model = run.inputs.model;
  at::Tensor sum = at::zeros({model.params.numel()}, at::kDouble);
  const PyTree params = model.params.map([](const at::Tensor& leaf) { return leaf.detach().requires_grad_(true); });
  for (std::int64_t i = 0; i < run.batch[0].size(0); ++i) {
    at::Tensor mean = at::zeros_like(sum);
    const std::int64_t views = run.batch[0].size(1);
    for (std::int64_t k = 0; k < views; ++k) {
      const at::Tensor loss = softmax_cross_entropy(model.forward(params, run.batch[0][i].slice(0, k, k + 1)),
                                                    run.batch[1].slice(0, i, i + 1));
      const PyTree gradient = params.with_leaves(torch::autograd::grad({loss.sum()}, params.leaves()));
      mean += flatten(gradient).to(at::kDouble) / static_cast<double>(views);
    }
    sum += mean * std::min(1.0, clipping_norm / mean.norm().item<double>());
  }
  return sum;
}

TEST(MeanOverViews, EveryEngineClipsTheMeanOfTheViewsGradients) {
  const std::map<std::string, std::map<std::string, std::string>> models{
      {"linear", {{"features", "oriented-gradients"}, {"init", "random"}}},
      {"tanh-cnn", {}},
      {"mlp", {{"hidden", "20"}}}};
  for (const auto& [name, args] : models) {
    const AugmentedRun run = small_run(name, args);
    const at::Tensor expected = clipped_means(run, 0.5);
    for (const EngineKind kind : {EngineKind::automatic, EngineKind::bookkeeping, EngineKind::vmap, EngineKind::loop}) {
      const auto engine = make_engine(kind, {});
      const ClippedSum sum = clipped_sum(*engine, loss_of(run.inputs), run.inputs.model.params, run.batch,
                                         microbatch_cuts(5, 0), {.clipping_norm = 0.5});
      EXPECT_LT((sum.flat.to(at::kDouble) - expected).norm().item<double>(), 5e-6 * expected.norm().item<double>())
          << name << " by " << engine->name();
    }
  }
}

}  // namespace
}  // namespace ripieno
