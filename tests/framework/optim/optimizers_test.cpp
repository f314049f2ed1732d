#include <ripieno/framework/optim/optimizers.hpp>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <vector>

#include "trajectories.hpp"
#include "varied_optimizers.hpp"

namespace ripieno::optim {
namespace {

using ripieno::testing::copy_of;
using ripieno::testing::read_trajectories;
using ripieno::testing::Trajectories;
using ripieno::testing::varied_optimizers;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

static_assert(Optimizer<FunctionalOptimizer>);

void expect_equal(const PyTree& a, const PyTree& b, const std::string& where = "") {
  ASSERT_TRUE(a.same_structure(b)) << where;
  for (std::size_t i = 0; i < a.num_leaves(); ++i) {
    EXPECT_TRUE(at::equal(a.leaves()[i], b.leaves()[i])) << where << " " << a.paths()[i];
  }
}

TEST(Optimizers, TakeTheirRateFromTheStepInTheState) {
  const FunctionalOptimizer optimizer =
      sgd({.lr = [](std::int64_t step) { return 1.0 / static_cast<double>(1 + step); }});
  const PyTree ones = at::ones({2}, at::kDouble);
  OptimizerState state = optimizer.init(ones);
  for (const double expected : {-1.0, -1.0 / 2, -1.0 / 3}) {
    const auto updated = optimizer.update(ones, state);
    EXPECT_EQ(updated.updates.tensor()[0].item<double>(), expected);
    state = updated.state;
  }
  EXPECT_EQ(state.step, 3);
}

TEST(Optimizers, ContinueBitForBitFromARestoredState) {
  const Trajectories data = read_trajectories(at::kFloat);
  const std::vector<FunctionalOptimizer> restarted = varied_optimizers();
  for (std::size_t k = 0; k < restarted.size(); ++k) {
    for (std::size_t stop = 0; stop <= data.gradients.size(); ++stop) {
      PyTree params = data.params;
      OptimizerState state = restarted[k].init(params);
      const auto train = [&](const FunctionalOptimizer& optimizer, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          const Noised<PyTree> noised(data.gradients[i], 1.0, data.stddevs[i], 1, Extent::global);
          auto [updates, next] = optimizer.update(noised, state, params);
          params = apply_updates(params, updates);
          state = next;
        }
      };
      train(restarted[k], 0, data.gradients.size());
      const PyTree uninterrupted = params;
      const OptimizerState last = state;

      params = data.params;
      state = restarted[k].init(params);
      train(restarted[k], 0, stop);
      params = copy_of(params);
      state = copied(state);
      train(varied_optimizers()[k], stop, data.gradients.size());
      expect_equal(params, uninterrupted, restarted[k].name());
      EXPECT_EQ(state, last) << restarted[k].name();
    }
  }
}

TEST(Optimizers, LeaveTheirArgumentsAlone) {
  const Trajectories data = read_trajectories(at::kFloat);
  for (const FunctionalOptimizer& optimizer : varied_optimizers()) {
    const PyTree params = copy_of(data.params);
    const PyTree gradient = copy_of(data.gradients[0]);
    const OptimizerState state = optimizer.update(gradient, optimizer.init(params), params).state;
    const OptimizerState before = copied(state);
    static_cast<void>(optimizer.update(gradient, state, params));
    expect_equal(params, data.params);
    expect_equal(gradient, data.gradients[0]);
    EXPECT_EQ(state, before) << optimizer.name();
  }
}

TEST(Optimizers, StepInPlaceGivesTheBitsOfUpdateAndApply) {
  const Trajectories data = read_trajectories(at::kFloat);
  for (const FunctionalOptimizer& optimizer : varied_optimizers()) {
    PyTree params = data.params;
    OptimizerState state = optimizer.init(params);
    const PyTree params_in_place = copy_of(params);
    OptimizerState state_in_place = optimizer.init(params);
    for (std::size_t i = 0; i < data.gradients.size(); ++i) {
      const Noised<PyTree> noised(data.gradients[i], 1.0, 1.5, 1, Extent::global);
      auto [updates, next] = optimizer.update(noised / 4.0, state, params);
      params = apply_updates(params, updates);
      state = next;
      optimizer.step_(params_in_place, noised, state_in_place, 4.0);
      expect_equal(params_in_place, params, optimizer.name());
      EXPECT_EQ(state_in_place, state) << optimizer.name();
    }
    expect_equal(optimizer.published(params_in_place, state_in_place), optimizer.published(params, state));
  }
}

TEST(Optimizers, BitsDoNotDependOnTheThreadCount) {
  const int threads_before = at::get_num_threads();
  const PyTree params{{"m", at::linspace(-1, 1, 300'000).reshape({3, 400, 250})}, {"v", at::linspace(1, 2, 70'001)}};
  const PyTree gradient{{"m", params["m"].tensor().mul(40).sin()}, {"v", params["v"].tensor().mul(90).cos()}};
  for (const FunctionalOptimizer& optimizer : varied_optimizers()) {
    std::vector<PyTree> results;
    for (const int threads : {1, 2, 3}) {
      at::set_num_threads(threads);
      const PyTree moved = copy_of(params);
      OptimizerState state = optimizer.init(params);
      for (int step = 0; step < 2; ++step) optimizer.step_(moved, gradient, state);
      results.push_back(moved);
    }
    expect_equal(results[1], results[0], optimizer.name());
    expect_equal(results[2], results[0], optimizer.name());
  }
  at::set_num_threads(threads_before);
}

// The test is compiled for the least of all processors, without vectors or fused products.
TEST(Adam, BitsAreThoseOfScalarArithmetic) {
  const std::int64_t size = 4099;
  const at::Tensor params = at::linspace(-1, 1, size);
  const at::Tensor gradient = params.mul(30).sin();
  const at::Tensor expected = params.clone();
  std::vector<float> mu(static_cast<std::size_t>(size)), nu(static_cast<std::size_t>(size));
  const FunctionalOptimizer optimizer = adam({.lr = 0.1});
  const at::Tensor moved = params.clone();
  OptimizerState state = optimizer.init(moved);
  double power1 = 1, power2 = 1;
  for (int t = 0; t < 3; ++t) {
    optimizer.step_(PyTree(moved), PyTree(gradient), state, 3.0);
    power1 *= 0.9;
    power2 *= 0.999;
    for (std::int64_t i = 0; i < size; ++i) {
      float& m = mu[static_cast<std::size_t>(i)];
      float& v = nu[static_cast<std::size_t>(i)];
      const float g = gradient.const_data_ptr<float>()[i] / 3.0F;
      m = 0.9F * m + static_cast<float>(1 - 0.9) * g;
      v = 0.999F * v + static_cast<float>(1 - 0.999) * (g * g);
      const float step = (m / static_cast<float>(1 - power1)) / (std::sqrt(v / static_cast<float>(1 - power2)) + 1e-8F);
      expected.mutable_data_ptr<float>()[i] += -0.1F * step;
    }
  }
  EXPECT_TRUE(at::equal(moved, expected));
}

TEST(Optimizers, WorkInTheDtypeOfTheStateOrTheParameters) {
  const PyTree params = at::ones({3}, at::kFloat);
  const PyTree gradient = at::ones({3}, at::kDouble);
  const FunctionalOptimizer optimizer = sgd({.lr = 0.5, .momentum = 0.9});
  const auto [updates, state] = optimizer.update(gradient, optimizer.init(params), params);
  EXPECT_EQ(updates.tensor().scalar_type(), at::kFloat);
  EXPECT_EQ(state.slots.at("trace").tensor().scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(updates, at::full({3}, -0.5)));
}

// With one gradient g again and again, v^ is g^2 and the noise in it s^2, whatever the step.
TEST(NoiseBiasCorrection, TakesTheVarianceOfTheNoiseFromTheSecondMoment) {
  const double g = 0.5, s = 0.3;
  const PyTree gradient = at::full({2}, 8 * g, at::kDouble);
  const Noised<PyTree> noised(gradient, 1.0, 8 * s, 1, Extent::global);
  for (const FunctionalOptimizer& optimizer :
       {adam({.lr = 1, .eps = 1e-12, .noise_bias_correction = true}),
        radam({.lr = 1, .beta2 = 0.6, .eps = 1e-12, .noise_bias_correction = true})}) {
    const PyTree params = at::zeros({2}, at::kDouble);
    OptimizerState state = optimizer.init(params);
    for (int step = 0; step < 3; ++step) {
      const double before = params.tensor()[0].item<double>();
      optimizer.step_(params, noised, state, 8.0);
      const double moved = before - params.tensor()[0].item<double>();
      const double expected = optimizer.name() == "radam" ? g : g / std::sqrt(g * g - s * s);
      EXPECT_NEAR(moved, expected, 1e-9) << optimizer.name() << step;
    }
  }
}

TEST(NoiseBiasCorrection, LeavesASecondMomentThatIsAllNoise) {
  const PyTree gradient = at::full({1}, 0.1, at::kDouble);
  const Noised<PyTree> noised(gradient, 1.0, 0.2, 1, Extent::global);
  const FunctionalOptimizer optimizer = adam({.lr = 1, .noise_bias_correction = true});
  const auto [updates, state] = optimizer.update(noised, optimizer.init(gradient));
  EXPECT_NEAR(updates.tensor().item<double>(), -1, 1e-6);
}

TEST(NoiseBiasCorrection, NeedsToKnowTheNoise) {
  const PyTree gradient = at::ones({1});
  const Noised<PyTree> unknown(gradient, 1.0, std::nullopt, 1, Extent::global);
  const FunctionalOptimizer optimizer = adam({.noise_bias_correction = true});
  EXPECT_THAT([&] { static_cast<void>(optimizer.update(unknown, optimizer.init(gradient))); },
              ThrowsMessage<UsageError>(HasSubstr("not known")));
  EXPECT_NO_THROW(static_cast<void>(adam().update(unknown, adam().init(gradient))));
}

// Of three-dimensional leaves, each matrix of the last two dimensions is factored by itself.
TEST(Adafactor, FactorsTheLastTwoDimensions) {
  const at::Tensor gradient = at::linspace(-2, 3, 2 * 40 * 5, at::kDouble).reshape({2, 40, 5});
  const FunctionalOptimizer optimizer = adafactor({.lr = 1, .clip = 1e9});
  const auto [updates, state] = optimizer.update(PyTree(gradient), optimizer.init(PyTree(gradient)));
  const at::Tensor squares = gradient.square();
  const at::Tensor rows = squares.mean(-1, true), columns = squares.mean(-2, true);
  const at::Tensor moments = rows * columns / rows.mean(-2, true);
  EXPECT_TRUE(at::allclose(updates, gradient / moments.sqrt() * -1, 1e-12, 0));
  EXPECT_EQ(state.slots.at("row").tensor().sizes(), (std::vector<std::int64_t>{2, 40}));
  EXPECT_EQ(state.slots.at("column").tensor().sizes(), (std::vector<std::int64_t>{2, 5}));
}

TEST(Adafactor, TakesLeavesWithoutElements) {
  const PyTree params{{"none", at::zeros({0, 3})}, {"some", at::ones({2, 2})}};
  const FunctionalOptimizer optimizer = adafactor({.lr = 0.1});
  const auto [updates, state] = optimizer.update(params, optimizer.init(params));
  EXPECT_TRUE(at::allclose(updates["some"], at::full({2, 2}, -0.1)));
}

/// The parameters of a run of five steps, after each.
std::vector<at::Tensor> follow(const FunctionalOptimizer& optimizer, PyTree& published) {
  const PyTree params = at::full({1}, 7.0, at::kDouble);
  OptimizerState state = optimizer.init(params);
  std::vector<at::Tensor> history;
  for (int step = 0; step < 5; ++step) {
    optimizer.step_(params, PyTree(at::full({1}, 1.0 + step, at::kDouble)), state);
    history.push_back(params.tensor().clone());
  }
  published = copy_of(optimizer.published(params, state));
  return history;
}

TEST(Averaged, IsTheWeightedMeanOfTheParametersAfterEachStep) {
  PyTree average;
  const auto history = follow(averaged(sgd({.lr = 0.1}), {.decay = 0.7}), average);
  double weights = 0, sum = 0;
  for (std::size_t i = 0; i < history.size(); ++i) {
    const double weight = std::pow(0.7, static_cast<double>(history.size() - i));
    weights += weight;
    sum += weight * history[i].item<double>();
  }
  EXPECT_NEAR(average.tensor().item<double>(), sum / weights, 1e-14);
}

TEST(Averaged, OfDecayOneIsTheMeanOfWhatComesLater) {
  PyTree average;
  const auto history = follow(averaged(sgd({.lr = 0.1}), {.decay = 1, .after = 2}), average);
  const double mean = (history[2] + history[3] + history[4]).item<double>() / 3;
  EXPECT_NEAR(average.tensor().item<double>(), mean, 1e-14);
}

TEST(Averaged, RefusesAnAverageOfAnAverage) {
  EXPECT_THROW(static_cast<void>(averaged(averaged(sgd({.lr = 1})))), UsageError);
  EXPECT_THROW(static_cast<void>(averaged(schedule_free(sgd({.lr = 1})))), UsageError);
  EXPECT_THROW(static_cast<void>(averaged(sgd({.lr = 1}), {.decay = 0})), UsageError);
  EXPECT_THROW(static_cast<void>(schedule_free(sgd({.lr = 1}), {.beta = 1.5})), UsageError);
  EXPECT_THROW(static_cast<void>(schedule_free(sgd({.lr = 1}), {.warmup = -1})), UsageError);
}

TEST(Optimizers, SayWhatCouplesElements) {
  EXPECT_EQ(adamw().coupling(), "");
  EXPECT_THAT(adamw({.update_rms_clip = 1}).coupling(), HasSubstr("update_rms_clip"));
  EXPECT_THAT(adafactor({.lr = 1}).coupling(), HasSubstr("rows and columns"));
  EXPECT_THAT(averaged(adafactor({.lr = 1})).coupling(), HasSubstr("rows and columns"));
}

TEST(Optimizers, NeedTheParametersForWeightDecay) {
  const PyTree tree = at::ones({2});
  for (const FunctionalOptimizer& optimizer :
       {sgd({.lr = 0.1, .weight_decay = 0.1}), adamw(), lion({.weight_decay = 1})}) {
    EXPECT_THAT([&] { static_cast<void>(optimizer.update(tree, optimizer.init(tree))); },
                ThrowsMessage<UsageError>(HasSubstr("weight decay")));
    EXPECT_NO_THROW(static_cast<void>(optimizer.update(tree, optimizer.init(tree), tree)));
  }
  EXPECT_NO_THROW(static_cast<void>(sgd({.lr = 0.1}).update(tree, {})));
}

TEST(Optimizers, RefuseOptionsThatMakeNoSense) {
  EXPECT_THAT([] { static_cast<void>(sgd({})); }, ThrowsMessage<UsageError>(HasSubstr(".lr")));
  for (const double bad : {-0.1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(static_cast<void>(sgd({.lr = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(sgd({.lr = 1, .momentum = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(sgd({.lr = 1, .momentum = 0.5, .dampening = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(sgd({.lr = 1, .weight_decay = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(adam({.beta1 = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(radam({.beta2 = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(ademamix({.alpha = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(adamw({.update_rms_clip = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(rmsprop({.alpha = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(adagrad({.initial = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(adadelta({.rho = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(lion({.beta2 = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(adafactor({.lr = 1, .eps = bad})), UsageError) << bad;
  }
  EXPECT_THROW(static_cast<void>(sgd({.lr = 1, .momentum = 1})), UsageError);
  EXPECT_THROW(static_cast<void>(sgd({.lr = 1, .nesterov = true})), UsageError);
  EXPECT_THROW(static_cast<void>(sgd({.lr = 1, .momentum = 0.9, .dampening = 0.1, .nesterov = true})), UsageError);
  EXPECT_THROW(static_cast<void>(adam({.eps = 0})), UsageError);
  EXPECT_THROW(static_cast<void>(adafactor({.lr = 1, .decay_rate = 0})), UsageError);
}

TEST(Optimizers, RefuseGradientsThatDoNotFit) {
  const PyTree params{{"a", at::ones({2})}};
  const FunctionalOptimizer optimizer = sgd({.lr = 1, .momentum = 0.9});
  OptimizerState state = optimizer.init(params);
  EXPECT_THROW(static_cast<void>(optimizer.update(PyTree{{"b", at::ones({2})}}, state)), UsageError);
  EXPECT_THROW(static_cast<void>(optimizer.update(PyTree{{"a", at::ones({1})}}, state)), UsageError);
  EXPECT_THROW(static_cast<void>(optimizer.update(PyTree{{"a", at::ones({2}, at::kLong)}}, state)), UsageError);
  EXPECT_THROW(optimizer.step_(PyTree{{"a", at::ones({2, 2}).t()}}, PyTree{{"a", at::ones({2, 2})}}, state),
               UsageError);
  EXPECT_THROW(optimizer.step_(params, params, state, 0.0), UsageError);
  EXPECT_TRUE(at::equal(params["a"], at::ones({2})));
  EXPECT_EQ(state, optimizer.init(params));
}

TEST(Optimizers, RefuseTheStateOfAnother) {
  const PyTree params = at::ones({2});
  EXPECT_THROW(static_cast<void>(adam().update(params, sgd({.lr = 1, .momentum = 0.9}).init(params))), UsageError);
  EXPECT_THROW(static_cast<void>(adam().update(params, {})), UsageError);
  EXPECT_THROW(static_cast<void>(adam({.noise_bias_correction = true}).update(params, adam().init(params))),
               UsageError);
}

TEST(OptimizerState, IsEqualOnlyToItsLike) {
  const auto with = [](std::int64_t step, PyTree trace) {
    return OptimizerState{.step = step, .slots = {{"trace", std::move(trace)}}};
  };
  const OptimizerState state = with(2, at::ones({2}));
  EXPECT_EQ(state, with(2, at::ones({2})));
  EXPECT_FALSE(state == with(3, at::ones({2})));
  EXPECT_FALSE(state == with(2, at::zeros({2})));
  EXPECT_FALSE(state == with(2, at::ones({2}, at::kDouble)));
  EXPECT_FALSE(state == with(2, PyTree{{"a", at::ones({2})}}));
  EXPECT_FALSE(state == (OptimizerState{.step = 2}));
  EXPECT_FALSE(state == (OptimizerState{.step = 2, .slots = state.slots, .phi = {0}}));
}

}  // namespace
}  // namespace ripieno::optim
