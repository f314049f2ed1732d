#include <ripieno/framework/optim/sgd.hpp>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <string>
#include <vector>

namespace ripieno::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

static_assert(Optimizer<Sgd>);

struct Trajectories {
  PyTree params;
  std::vector<PyTree> gradients;
  std::vector<double> stddevs;
  Json runs;
};

at::Tensor read_tensor(const Json& values, at::ScalarType dtype) {
  return at::tensor(values.get<std::vector<double>>(), at::kDouble).to(dtype);
}

PyTree read_tree(const Json& b, const Json& w, at::ScalarType dtype) {
  return PyTree{{"b", read_tensor(b, dtype)}, {"w", read_tensor(w, dtype).reshape({3, 4})}};
}

Trajectories read_trajectories(at::ScalarType dtype) {
  const Json file = read_json(std::string(RIPIENO_TEST_DATA) + "/sgd_trajectories.json");
  Trajectories read;
  read.params = read_tree(file.at("params0").at("b").at("data"), file.at("params0").at("w").at("data"), dtype);
  for (const Json& gradient : file.at("grads")) {
    read.gradients.push_back(read_tree(gradient.at("b"), gradient.at("w"), dtype));
  }
  read.stddevs = file.at("sigma").get<std::vector<double>>();
  read.runs = file.at("runs");
  return read;
}

double cosine(std::int64_t step) { return 0.05 * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / 5)); }

// The optimizers that the recorded runs name.
std::map<std::string, SgdOptions> recorded_options() {
  return {{"sgd(lr=0.1)", {.lr = 0.1}},
          {"sgd(lr=0.1,momentum=0.9)", {.lr = 0.1, .momentum = 0.9}},
          {"sgd(lr=0.1,momentum=0.9,dampening=0.3)", {.lr = 0.1, .momentum = 0.9, .dampening = 0.3}},
          {"sgd(lr=0.1,momentum=0.9,nesterov)", {.lr = 0.1, .momentum = 0.9, .nesterov = true}},
          {"sgd(lr=0.1,wd=0.05)", {.lr = 0.1, .weight_decay = 0.05}},
          {"sgd(lr=0.1,momentum=0.9,wd=0.05,nesterov)",
           {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05, .nesterov = true}},
          {"sgd(lr=0.1,maximize)", {.lr = 0.1, .maximize = true}},
          {"sgd(lr=cosine 0.1->0 in 5)", {.lr = cosine}}};
}

struct Tolerance {
  double relative, absolute;
};

Tolerance tolerance_of(const Json& run) {
  // The recorded schedule took its cosine of a float32 angle.
  const double absolute = run.at("name").get<std::string>().find("cosine") == std::string::npos ? 0 : 1e-8;
  return {.relative = run.at("dtype") == "float64" ? 1e-11 : 2e-5, .absolute = absolute};
}

void expect_close(const PyTree& actual, const PyTree& expected, const Tolerance& tolerance, const std::string& where) {
  for (const char* leaf : {"b", "w"}) {
    EXPECT_TRUE(at::allclose(actual[leaf], expected[leaf], tolerance.relative, tolerance.absolute))
        << where << " leaf " << leaf;
  }
}

void follow_run(const Json& run) {
  const at::ScalarType dtype = run.at("dtype") == "float64" ? at::kDouble : at::kFloat;
  const Trajectories data = read_trajectories(dtype);
  const Sgd optimizer = sgd(recorded_options().at(run.at("name")));
  PyTree params = data.params;
  SgdState state = optimizer.init(params);
  for (std::size_t step = 0; step < data.gradients.size(); ++step) {
    const Noised<PyTree> noised(data.gradients[step], 1.0, data.stddevs[step], 1, Extent::global);
    const Gradient gradient = run.at("feed") == "noised" ? Gradient(noised) : Gradient(data.gradients[step]);
    auto [updates, next] = optimizer.update(gradient, state, params);
    params = apply_updates(params, updates);
    state = next;
    const Json& expected = run.at("params_after_step").at(step);
    expect_close(params, read_tree(expected.at("b"), expected.at("w"), dtype), tolerance_of(run),
                 run.at("name").get<std::string>() + " step " + std::to_string(step));
  }
}

TEST(Sgd, FollowsTheRecordedTrajectories) {
  const Json runs = read_trajectories(at::kDouble).runs;
  EXPECT_EQ(runs.size(), 17U);
  for (const Json& run : runs) follow_run(run);
}

TEST(Sgd, TakesItsRateFromTheStepInTheState) {
  const Sgd optimizer = sgd({.lr = [](std::int64_t step) { return 1.0 / static_cast<double>(1 + step); }});
  const PyTree ones = at::ones({2}, at::kDouble);
  SgdState state = optimizer.init(ones);
  for (const double expected : {-1.0, -1.0 / 2, -1.0 / 3}) {
    const auto updated = optimizer.update(ones, state);
    EXPECT_EQ(updated.updates.tensor()[0].item<double>(), expected);
    state = updated.state;
  }
  EXPECT_EQ(state.step, 3);
}

// Options that reach every line of the rule.
std::vector<SgdOptions> varied_options() {
  return {{.lr = 0.1},
          {.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.05},
          {.lr = cosine, .momentum = 0.9, .weight_decay = 0.05, .nesterov = true, .maximize = true}};
}

void expect_equal(const PyTree& a, const PyTree& b) {
  ASSERT_TRUE(a.same_structure(b));
  for (std::size_t i = 0; i < a.num_leaves(); ++i) EXPECT_TRUE(at::equal(a.leaves()[i], b.leaves()[i])) << a.paths()[i];
}

PyTree copy_of(const PyTree& tree) {
  return tree.map([](const at::Tensor& leaf) { return leaf.clone(); });
}

TEST(Sgd, ContinuesBitForBitFromARestoredState) {
  const Trajectories data = read_trajectories(at::kFloat);
  for (const SgdOptions& options : varied_options()) {
    for (std::size_t stop = 0; stop <= data.gradients.size(); ++stop) {
      PyTree params = data.params;
      SgdState state = sgd(options).init(params);
      const auto train = [&](const Sgd& optimizer, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          auto [updates, next] = optimizer.update(data.gradients[i], state, params);
          params = apply_updates(params, updates);
          state = next;
        }
      };
      const PyTree start = params;
      train(sgd(options), 0, data.gradients.size());
      const PyTree uninterrupted = params;
      const SgdState last = state;

      params = start;
      state = sgd(options).init(params);
      train(sgd(options), 0, stop);
      params = copy_of(params);
      state = SgdState{.step = state.step, .momentum = copy_of(state.momentum)};
      train(sgd(options), stop, data.gradients.size());
      expect_equal(params, uninterrupted);
      EXPECT_EQ(state, last);
    }
  }
}

TEST(Sgd, LeavesItsArgumentsAlone) {
  const Trajectories data = read_trajectories(at::kFloat);
  const PyTree params = copy_of(data.params);
  const PyTree gradient = copy_of(data.gradients[0]);
  const Sgd optimizer = sgd(varied_options()[2]);
  const SgdState state = optimizer.update(gradient, optimizer.init(params), params).state;
  const SgdState before{.step = state.step, .momentum = copy_of(state.momentum)};
  static_cast<void>(optimizer.update(gradient, state, params));
  expect_equal(params, data.params);
  expect_equal(gradient, data.gradients[0]);
  EXPECT_EQ(state, before);
}

TEST(Sgd, StepInPlaceGivesTheBitsOfUpdateAndApply) {
  const Trajectories data = read_trajectories(at::kFloat);
  for (const SgdOptions& options : varied_options()) {
    const Sgd optimizer = sgd(options);
    PyTree params = data.params;
    SgdState state = optimizer.init(params);
    const PyTree params_in_place = copy_of(params);
    SgdState state_in_place = optimizer.init(params);
    for (const PyTree& gradient : data.gradients) {
      auto [updates, next] = optimizer.update(divided(gradient, 3.0), state, params);
      params = apply_updates(params, updates);
      state = next;
      optimizer.step_(params_in_place, gradient, state_in_place, 3.0);
      expect_equal(params_in_place, params);
      EXPECT_EQ(state_in_place, state);
    }
  }
}

TEST(Sgd, BitsDoNotDependOnTheThreadCount) {
  const int threads_before = at::get_num_threads();
  const at::Tensor params = at::linspace(-1, 1, 300'001);
  const at::Tensor gradient = at::linspace(2, -3, 300'001).sin();
  const Sgd optimizer = sgd(varied_options()[1]);
  std::vector<PyTree> updates;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    SgdState state = optimizer.init(params);
    for (int step = 0; step < 2; ++step) {
      auto updated = optimizer.update(PyTree(gradient), state, params);
      state = updated.state;
      updates.push_back(updated.updates);
    }
  }
  at::set_num_threads(threads_before);
  for (std::size_t i = 2; i < updates.size(); ++i) expect_equal(updates[i], updates[i % 2]);
}

TEST(Sgd, WorksInTheDtypeOfTheParametersWhereTheyEnter) {
  const Sgd optimizer = sgd({.lr = 0.5, .momentum = 0.9});
  const PyTree params = at::ones({3}, at::kFloat);
  const PyTree gradient = at::ones({3}, at::kDouble);
  const auto [updates, state] = optimizer.update(gradient, optimizer.init(params), params);
  EXPECT_EQ(updates.tensor().scalar_type(), at::kFloat);
  EXPECT_EQ(state.momentum.tensor().scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(updates, at::full({3}, -0.5)));
}

TEST(Sgd, NeedsTheParametersForWeightDecay) {
  const PyTree tree = at::ones({2});
  const Sgd optimizer = sgd({.lr = 0.1, .weight_decay = 0.1});
  EXPECT_THAT([&] { static_cast<void>(optimizer.update(tree, optimizer.init(tree))); },
              ThrowsMessage<UsageError>(HasSubstr("weight decay")));
  EXPECT_NO_THROW(static_cast<void>(optimizer.update(tree, optimizer.init(tree), tree)));
  EXPECT_NO_THROW(static_cast<void>(sgd({.lr = 0.1}).update(tree, {})));
}

TEST(Sgd, RefusesOptionsThatMakeNoSense) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT([] { static_cast<void>(sgd({})); }, ThrowsMessage<UsageError>(HasSubstr(".lr")));
  for (const double bad : {-0.1, nan, infinity}) {
    EXPECT_THROW(static_cast<void>(sgd({.lr = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(sgd({.lr = 1, .momentum = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(sgd({.lr = 1, .momentum = 0.5, .dampening = bad})), UsageError) << bad;
    EXPECT_THROW(static_cast<void>(sgd({.lr = 1, .weight_decay = bad})), UsageError) << bad;
  }
  EXPECT_THROW(static_cast<void>(sgd({.lr = 1, .momentum = 1})), UsageError);
  EXPECT_THROW(static_cast<void>(sgd({.lr = 1, .nesterov = true})), UsageError);
  EXPECT_THROW(static_cast<void>(sgd({.lr = 1, .momentum = 0.9, .dampening = 0.1, .nesterov = true})), UsageError);
}

TEST(Sgd, RefusesGradientsThatDoNotFit) {
  const PyTree params{{"a", at::ones({2})}};
  const Sgd optimizer = sgd({.lr = 1, .momentum = 0.9});
  SgdState state = optimizer.init(params);
  EXPECT_THROW(static_cast<void>(optimizer.update(PyTree{{"b", at::ones({2})}}, state)), UsageError);
  EXPECT_THROW(static_cast<void>(optimizer.update(PyTree{{"a", at::ones({1})}}, state)), UsageError);
  EXPECT_THROW(static_cast<void>(optimizer.update(PyTree{{"a", at::ones({2}, at::kLong)}}, state)), UsageError);
  EXPECT_THROW(optimizer.step_(PyTree{{"a", at::ones({2, 2}).t()}}, PyTree{{"a", at::ones({2, 2})}}, state),
               UsageError);
  EXPECT_THROW(optimizer.step_(params, params, state, 0.0), UsageError);
  EXPECT_TRUE(at::equal(params["a"], at::ones({2})));
  EXPECT_EQ(state, optimizer.init(params));
}

TEST(SgdState, IsEqualOnlyToItsLike) {
  const SgdState state{.step = 2, .momentum = at::ones({2})};
  EXPECT_EQ(state, (SgdState{.step = 2, .momentum = at::ones({2})}));
  EXPECT_FALSE(state == (SgdState{.step = 3, .momentum = at::ones({2})}));
  EXPECT_FALSE(state == (SgdState{.step = 2, .momentum = at::zeros({2})}));
  EXPECT_FALSE(state == (SgdState{.step = 2, .momentum = at::ones({2}, at::kDouble)}));
  EXPECT_FALSE(state == (SgdState{.step = 2, .momentum = PyTree{{"a", at::ones({2})}}}));
}

}  // namespace
}  // namespace ripieno::optim
