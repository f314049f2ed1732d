#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/engine/mechanisms.hpp>
#include <ripieno/accounting/ledger/report.hpp>
#include <set>

#include "ledger_fixture.hpp"

// Reference values of adaptive clipping at z = 1.1, E = 256, noise 0.05 on the fraction, q = 256/60000, 14063 steps,
// delta = 1e-5: gradients take multiplier 1.1010168807, and the whole costs epsilon 2.38168973, as z = 1.1 alone does.
// Noising gradients with 1.1 itself would cost 2.38543917.

namespace ripieno::ledger {
namespace {

using testing::Builder;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

PlanOptions adaptive_options() {
  return {.num_examples = 60000,
          .dataset_id = "7d9f5d3e-8f0f-4a41-9d53-1c1b7f7f1e11",
          .expected_batch = 256,
          .steps = 14063,
          .noise_multiplier = 1.1,
          .clipping_norm = 0.1,
          .delta = 1e-5,
          .clipping = ClippingKind::adaptive};
}

TEST(ClippingPlan, Invariant_P12_TheCountIsPaidForByTheGradientsNoise) {
  const PrivacyPlan plan(adaptive_options());
  EXPECT_NEAR(plan.gradient_noise_multiplier(), 1.1010168807, 1e-10);
  EXPECT_EQ(plan.noise_multiplier(), 1.1);
  EXPECT_DOUBLE_EQ(plan.noise_stddev(), plan.gradient_noise_multiplier() * 0.1 * (1 + plan.rho()));
  EXPECT_DOUBLE_EQ(plan.noise_stddev(3), plan.gradient_noise_multiplier() * 3 * (1 + plan.rho()));
  // What the two releases cost together is no more than what the accountant is told.
  const double joint = accounting::joint_noise_multiplier(plan.gradient_noise_multiplier(), {.noise_stddev = 12.8});
  EXPECT_GE(joint, 1.1 * (1 - 1e-15));
}

TEST(ClippingPlan, EpsilonOfAnAdaptiveLedgerIsThatOfItsWholeSteps) {
  const PrivacyPlan plan(adaptive_options());
  const double delta = 1e-5;
  const accounting::Interval epsilon = epsilon_of_plan(plan, plan.max_records(), delta);
  EXPECT_NEAR(epsilon.upper, 2.38168973, 5e-9);
  const Analysis analysis = analyse({parse(Builder().segment(adaptive_options()).steps(0, 14063).text, "ledger")});
  EXPECT_NEAR(epsilons(analysis, {&delta, 1})[0].epsilon.upper, epsilon.upper, 1e-9);
  // The same from the noise that was really made, both releases as one joint Gaussian.
  const double joint = accounting::joint_noise_multiplier(
      plan.noise_stddev() / (plan.clipping_norm() * (1 + plan.rho())), {.noise_stddev = 0.05 * 256});
  Schedule realised;
  add_steps(realised, joint, plan.sample_rate(), plan.max_records());
  EXPECT_NEAR(epsilon_of_schedule(realised, delta).upper, epsilon.upper, 1e-9);
}

TEST(ClippingPlan, ACountThatTheStepCannotPayForIsRefused) {
  PlanOptions options = adaptive_options();
  options.noise_multiplier = 25.6;  // 2 sigma_b
  EXPECT_THAT([&] { PrivacyPlan{options}; }, ThrowsMessage<UsageError>(HasSubstr("count")));
  options.noise_multiplier = 25.5;
  EXPECT_NO_THROW(PrivacyPlan{options});
}

PlanOptions reproducible_adaptive_options() {
  PlanOptions options = adaptive_options();
  options.reduction = Reduction::reproducible;
  options.num_parameters = 10'000;
  return options;
}

TEST(ClippingPlan, Invariant_P5_RhoHoldsOnTheLatticeOfEveryNorm) {
  for (const double noise_multiplier : {0.0, 0.7, 1.1, 20.0}) {
    PlanOptions options = reproducible_adaptive_options();
    options.noise_multiplier = noise_multiplier;
    const PrivacyPlan plan(options);
    const auto microbatch = static_cast<double>(plan.microbatch());
    for (double norm = options.adaptive.clipping_norm_min; norm <= options.adaptive.clipping_norm_max; norm *= 1.07) {
      const double step = plan.lattice_step(norm);
      EXPECT_EQ(std::exp2(std::round(std::log2(step))), step);
      EXPECT_GE(plan.rho() * norm, 2 * microbatch * microbatch * 0x1p-24 * norm + step * 100) << norm;
      EXPECT_LE(2 * static_cast<double>(plan.max_draw()) * norm / step, 0x1p50);
      if (noise_multiplier == 0) continue;
      EXPECT_LE(step, plan.noise_stddev(norm) * 0x1p-22);
      EXPECT_GE(step, plan.noise_stddev(norm) * 0x1p-24);
    }
    EXPECT_LE(plan.rho(), 0.01);
  }
}

TEST(ClippingPlan, AReproducibleAdaptivePlanReadsBackAndItsLatticeIsChecked) {
  const PrivacyPlan plan(reproducible_adaptive_options());
  EXPECT_EQ(PrivacyPlan::from_json(Json::parse(plan.to_json().dump())), plan);
  EXPECT_NE(plan, PrivacyPlan(adaptive_options()));
  for (const double factor : {0.5, 2.0}) {
    Json json = plan.to_json();
    json["rounding"]["lattice_step"] = factor * plan.lattice_step(AdaptivePlan{}.clipping_norm_min);
    EXPECT_THROW((void)PrivacyPlan::from_json(json), DataError);
  }
  Json json = plan.to_json();
  json["rounding"]["rho"] = 0.9 * plan.rho();
  EXPECT_THROW((void)PrivacyPlan::from_json(json), DataError);
}

TEST(ClippingPlan, CalibrationGivesTheMultiplierOfTheWholeStep) {
  PlanOptions options = adaptive_options();
  PlanOptions fixed = options;
  fixed.clipping = ClippingKind::fixed;
  EXPECT_EQ(calibrate_plan(options, 2.5), calibrate_plan(fixed, 2.5));
}

TEST(ClippingPlan, EveryKindReadsBackAndIsAContractOfItsOwn) {
  std::vector<std::string> hashes;
  for (const ClippingKind kind :
       {ClippingKind::fixed, ClippingKind::adaptive, ClippingKind::per_layer, ClippingKind::automatic}) {
    PlanOptions options = adaptive_options();
    options.clipping = kind;
    options.adaptive.target_quantile = 0.3;
    const PrivacyPlan plan(options);
    const PrivacyPlan back = PrivacyPlan::from_json(Json::parse(plan.to_json().dump()));
    EXPECT_EQ(back, plan);
    EXPECT_EQ(back.clipping(), kind);
    EXPECT_EQ(back.adaptive().has_value(), kind == ClippingKind::adaptive);
    EXPECT_EQ(clipping_kind(clipping_name(kind)), kind);
    hashes.push_back(plan.hash());
  }
  EXPECT_EQ(std::set(hashes.begin(), hashes.end()).size(), 4U);
  EXPECT_THAT([] { (void)clipping_kind("flat"); }, ThrowsMessage<UsageError>(HasSubstr("per-layer")));
}

TEST(ClippingPlan, ALedgerThatContradictsItselfIsRefused) {
  const Json good = PrivacyPlan(adaptive_options()).to_json();
  const auto refused = [&](auto change) {
    Json bad = good;
    change(bad);
    EXPECT_THROW((void)PrivacyPlan::from_json(bad), DataError) << bad.dump();
  };
  refused([](Json& j) { j["clipping"] = "fixed"; });
  refused([](Json& j) { j.erase("adaptive"); });
  refused([](Json& j) { j["adaptive"]["surprise"] = 1; });
  refused([](Json& j) { j["adaptive"]["fraction_noise_std"] = 0.06; });  // the recorded noise fits another count
  refused([](Json& j) { j["adaptive"]["fraction_noise_std"] = 1e-6; });
}

TEST(ClippingPlan, NamesTheAdaptiveFieldThatMakesNoSense) {
  const auto refuses = [](double AdaptivePlan::*field, double value, const char* name) {
    PlanOptions options = adaptive_options();
    options.adaptive.*field = value;
    EXPECT_THAT([&] { PrivacyPlan{options}; }, ThrowsMessage<UsageError>(HasSubstr(name))) << value;
  };
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    refuses(&AdaptivePlan::target_quantile, bad, "target_quantile");
    refuses(&AdaptivePlan::learning_rate, bad, "learning_rate");
    refuses(&AdaptivePlan::fraction_noise_std, bad, "fraction_noise_std");
    refuses(&AdaptivePlan::clipping_norm_min, bad, "clipping_norm_min");
    refuses(&AdaptivePlan::clipping_norm_max, bad, "clipping_norm_max");
  }
  refuses(&AdaptivePlan::clipping_norm_min, 0.2, "clipping norm");
}

}  // namespace
}  // namespace ripieno::ledger
