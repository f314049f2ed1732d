#include "trajectories.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/optim/optimizers.hpp>

namespace ripieno::optim {
namespace {

using ripieno::testing::read_trajectories;
using ripieno::testing::recorded_tree;
using ripieno::testing::Trajectories;
using ripieno::testing::trajectory_file;

double cosine(std::int64_t step) { return 0.05 * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / 5)); }

/// An optimizer that the recorded runs name, with or without noise bias correction.
using Recorded = std::function<FunctionalOptimizer(bool corrects)>;

std::map<std::string, Recorded> recorded_sgd() {
  const auto of = [](SgdOptions options) { return [options](bool) { return sgd(options); }; };
  return {{"sgd(lr=0.1)", of({.lr = 0.1})},
          {"sgd(lr=0.1,momentum=0.9)", of({.lr = 0.1, .momentum = 0.9})},
          {"sgd(lr=0.1,momentum=0.9,dampening=0.3)", of({.lr = 0.1, .momentum = 0.9, .dampening = 0.3})},
          {"sgd(lr=0.1,momentum=0.9,nesterov)", of({.lr = 0.1, .momentum = 0.9, .nesterov = true})},
          {"sgd(lr=0.1,wd=0.05)", of({.lr = 0.1, .weight_decay = 0.05})},
          {"sgd(lr=0.1,momentum=0.9,wd=0.05,nesterov)",
           of({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05, .nesterov = true})},
          {"sgd(lr=0.1,maximize)", of({.lr = 0.1, .maximize = true})},
          {"sgd(lr=cosine 0.1->0 in 5)", of({.lr = cosine})}};
}

std::map<std::string, Recorded> recorded_adams() {
  return {
      {"adam()", [](bool bc) { return adam({.lr = 0.01, .noise_bias_correction = bc}); }},
      {"adam(wd=0.1)", [](bool bc) { return adam({.lr = 0.01, .weight_decay = 0.1, .noise_bias_correction = bc}); }},
      {"adamw()", [](bool bc) { return adamw({.lr = 0.01, .noise_bias_correction = bc}); }},
      {"adamw(wd=0.1,rms_clip=0.5)",
       [](bool bc) {
         return adamw({.lr = 0.01, .weight_decay = 0.1, .update_rms_clip = 0.5, .noise_bias_correction = bc});
       }},
      {"radam()", [](bool bc) { return radam({.lr = 0.01, .noise_bias_correction = bc}); }},
      {"radam(b2=0.6)", [](bool bc) { return radam({.lr = 0.01, .beta2 = 0.6, .noise_bias_correction = bc}); }},
      {"ademamix()", [](bool bc) { return ademamix({.lr = 0.01, .noise_bias_correction = bc}); }}};
}

std::map<std::string, Recorded> recorded_others() {
  return {
      {"adagrad()", [](bool bc) { return adagrad({.lr = 0.1, .noise_bias_correction = bc}); }},
      {"adagrad(init=0.1,wd=0.05)",
       [](bool bc) { return adagrad({.lr = 0.1, .initial = 0.1, .weight_decay = 0.05, .noise_bias_correction = bc}); }},
      {"rmsprop()", [](bool bc) { return rmsprop({.lr = 0.01, .noise_bias_correction = bc}); }},
      {"rmsprop(wd=0.1,L2,rms_clip=1)",
       [](bool bc) {
         return rmsprop(
             {.lr = 0.01, .weight_decay = 0.1, .l2 = true, .update_rms_clip = 1, .noise_bias_correction = bc});
       }},
      {"adadelta()", [](bool bc) { return adadelta({.lr = 1, .noise_bias_correction = bc}); }},
      {"adafactor()", [](bool bc) { return adafactor({.lr = 0.01, .noise_bias_correction = bc}); }},
      {"adafactor(beta1=0.9)",
       [](bool bc) { return adafactor({.lr = 0.01, .beta1 = 0.9, .noise_bias_correction = bc}); }},
      {"lion()", [](bool) { return lion({.lr = 0.01}); }},
      {"lion(wd=0.1)", [](bool) { return lion({.lr = 0.01, .weight_decay = 0.1}); }},
      {"schedule_free(adamw)", [](bool) { return schedule_free(adamw({.lr = 0.01})); }},
      {"schedule_free(sgd,warmup=2)",
       [](bool) { return schedule_free(sgd({.lr = 0.1}), {.beta = 0.8, .warmup = 2}); }}};
}

std::map<std::string, Recorded> recorded() {
  std::map<std::string, Recorded> all = recorded_sgd();
  all.merge(recorded_adams());
  all.merge(recorded_others());
  return all;
}

FunctionalOptimizer optimizer_of(const Json& run) {
  static const std::map<std::string, Recorded> all = recorded();
  std::string name = run.at("name");
  const bool corrects = name.ends_with(" BC");
  if (corrects) name.resize(name.size() - 3);
  return all.at(name)(corrects);
}

/// One noised gradient of a run, and what it is fed as.
struct Feed {
  Feed(const Trajectories& data, const std::string& kind, std::size_t step)
      : noised(data.gradients[step], 1.0, data.stddevs[step], 1, Extent::global),
        per_group(data.gradients[step], Clipped<PyTree>(data.gradients[step], 1.0, Extent::global),
                  PerGroup({{"b", "b"}, {"w", "w"}}, {{"b", data.stddevs[step]}, {"w", 2 * data.stddevs[step]}}), 1),
        pair{noised, {data.squares[step], 1.0, data.stddevs[step], 1, Extent::global}},
        plain(data.gradients[step]),
        kind(kind) {}

  [[nodiscard]] Gradient gradient() const {
    if (kind == "noised") return noised;
    if (kind == "noised_pg") return per_group;
    if (kind == "second") return pair;
    return plain;
  }

  Noised<PyTree> noised, per_group;
  NoisedPair<PyTree> pair;
  PyTree plain;
  std::string kind;
};

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
  const FunctionalOptimizer optimizer = optimizer_of(run);
  PyTree params = data.params;
  OptimizerState state = optimizer.init(params);
  const std::string name = run.at("name").get<std::string>() + " " + run.at("feed").get<std::string>();
  for (std::size_t step = 0; step < data.gradients.size(); ++step) {
    const Feed feed(data, run.at("feed"), step);
    auto [updates, next] = optimizer.update(feed.gradient(), state, params);
    params = apply_updates(params, updates);
    state = next;
    expect_close(params, recorded_tree(run.at("params_after_step").at(step), dtype), tolerance_of(run),
                 name + " step " + std::to_string(step));
  }
  if (!run.contains("published_x")) return;
  expect_close(optimizer.published(params, state), recorded_tree(run.at("published_x"), dtype), tolerance_of(run),
               name + " published");
}

TEST(Optimizers, FollowTheRecordedTrajectories) {
  std::size_t followed = 0;
  for (const Json& run : trajectory_file().at("runs")) {
    if (run.contains("error")) continue;
    follow_run(run);
    ++followed;
  }
  EXPECT_EQ(followed, 120U);
}

TEST(Optimizers, RefuseAPairWhereTheRecordedOnesDo) {
  const Trajectories data = read_trajectories(at::kDouble);
  std::size_t refused = 0;
  for (const Json& run : trajectory_file().at("runs")) {
    if (!run.contains("error")) continue;
    const FunctionalOptimizer optimizer = optimizer_of(run);
    const Feed feed(data, "second", 0);
    EXPECT_THROW(static_cast<void>(optimizer.update(feed.gradient(), optimizer.init(data.params), data.params)),
                 UsageError)
        << run.at("name");
    ++refused;
  }
  EXPECT_EQ(refused, 8U);
}

// The recorded resumption took its first step as that of a new run. The uninterrupted run is what a resumed one gives.
TEST(Sgd, ResumesWithItsMomentum) {
  const Json& recorded = trajectory_file().at("sgd_momentum_resume");
  const Trajectories data = read_trajectories(at::kDouble);
  const FunctionalOptimizer optimizer = sgd({.lr = 0.1, .momentum = 0.9});
  PyTree params = data.params;
  OptimizerState state = optimizer.init(params);
  for (std::size_t step = 0; step < 5; ++step) {
    if (step == 2) state = copied(state);
    auto [updates, next] = sgd({.lr = 0.1, .momentum = 0.9}).update(data.gradients[step], state, params);
    params = apply_updates(params, updates);
    state = next;
    if (step < 2 || step > 3) continue;
    const auto expected = recorded.at("uninterrupted_b_steps_3_4").at(step - 2).get<std::vector<double>>();
    EXPECT_TRUE(at::allclose(params["b"], at::tensor(expected, at::kDouble), 1e-11, 0));
    const auto wrong = recorded.at("resumed_b_steps_3_4").at(step - 2).get<std::vector<double>>();
    EXPECT_FALSE(at::allclose(params["b"], at::tensor(wrong, at::kDouble), 1e-4, 0));
  }
}

}  // namespace
}  // namespace ripieno::optim
