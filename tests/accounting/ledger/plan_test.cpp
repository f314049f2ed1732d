#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/ledger/plan.hpp>

namespace ripieno {
namespace {

using testing::HasSubstr;

PlanOptions mnist_options() {
  return {.num_examples = 60000,
          .dataset_id = "7d9f5d3e-8f0f-4a41-9d53-1c1b7f7f1e11",
          .expected_batch = 256.1,
          .steps = 14063,
          .noise_multiplier = 1.1,
          .clipping_norm = 0.1,
          .delta = 1e-5,
          .world_size = 4};
}

TEST(PrivacyPlan, DerivesRateAndNoiseFromTheContract) {
  const PrivacyPlan plan(mnist_options());
  EXPECT_EQ(plan.sample_rate(), 256.1 / 60000);
  EXPECT_EQ(plan.noise_stddev(), 1.1 * 0.1 * (1 + plan.rho()));
  EXPECT_GT(plan.rho(), 0);
  EXPECT_LE(plan.rho(), 0.01);
  EXPECT_GT(plan.rounding_tail(), 0);
  EXPECT_LE(plan.rounding_tail(), 1e-15);
  EXPECT_EQ(plan.max_records(), 14063);
}

TEST(PrivacyPlan, ReadsBackFromJsonBitForBit) {
  PlanOptions options = mnist_options();
  options.expected_batch = 0.1 + 0.2;
  options.noise_multiplier = 1.0 / 3;
  options.clipping_norm = 5e-20;
  options.reserve_steps = 17;
  options.secure_seed = false;
  const PrivacyPlan plan(options);
  const PrivacyPlan back = PrivacyPlan::from_json(Json::parse(plan.to_json().dump(4)));
  EXPECT_EQ(back, plan);
  EXPECT_EQ(back.to_json().dump(), plan.to_json().dump());
  EXPECT_EQ(back.noise_stddev(), plan.noise_stddev());
  EXPECT_EQ(back.rho(), plan.rho());
  EXPECT_EQ(back.rounding_tail(), plan.rounding_tail());
  EXPECT_FALSE(back.secure_seed());
}

PlanOptions reproducible_options() {
  PlanOptions options = mnist_options();
  options.reduction = Reduction::reproducible;
  options.num_parameters = 26010;
  return options;
}

TEST(PrivacyPlan, AReproduciblePlanIsTheSameContractForEveryWorldSize) {
  PlanOptions options = reproducible_options();
  const PrivacyPlan plan(options);
  for (const int world_size : {1, 2, 3, 8, 4096}) {
    options.world_size = world_size;
    EXPECT_EQ(PrivacyPlan(options), plan);
    EXPECT_EQ(PrivacyPlan(options).noise_stddev(), plan.noise_stddev());
    EXPECT_EQ(PrivacyPlan(options).world_size(), world_size);
  }
  EXPECT_NE(plan, PrivacyPlan(mnist_options()));
  EXPECT_EQ(plan_differences(PrivacyPlan(mnist_options()), plan).size(), 1U);
  EXPECT_EQ(plan_differences(plan, PrivacyPlan(mnist_options())).size(), 2U);
}

TEST(PrivacyPlan, AReproduciblePlanReadsBackFromJsonAndItsRhoIsChecked) {
  const PrivacyPlan plan(reproducible_options());
  const PrivacyPlan back = PrivacyPlan::from_json(Json::parse(plan.to_json().dump()));
  EXPECT_EQ(back, plan);
  EXPECT_TRUE(back.reproducible());
  EXPECT_EQ(back.lattice_step(back.clipping_norm()), plan.lattice_step(plan.clipping_norm()));
  EXPECT_EQ(back.to_json().dump(), plan.to_json().dump());
  Json json = plan.to_json();
  json["rounding"]["lattice_step"] = 2 * plan.lattice_step(plan.clipping_norm());  // rounds more than rho says
  EXPECT_THROW((void)PrivacyPlan::from_json(json), DataError);
  json = plan.to_json();
  json["rounding"].erase("lattice_step");
  EXPECT_THROW((void)PrivacyPlan::from_json(json), DataError);
  json = plan.to_json();
  json.erase("reduction");
  EXPECT_THROW((void)PrivacyPlan::from_json(json), DataError);
}

TEST(PrivacyPlan, AReproduciblePlanCutsTheIdsIntoBlocksAndItsStepSuitsTheNoise) {
  PlanOptions options = reproducible_options();
  for (const double noise_multiplier : {0.3, 1.0, 1.1, 20.0}) {
    options.noise_multiplier = noise_multiplier;
    const PrivacyPlan plan(options);
    EXPECT_LE(plan.block_size() * 16, plan.num_examples());
    EXPECT_LT(plan.microbatch(), 200) << "a block draws 16 examples on average";
    EXPECT_LE(plan.rounding_tail(), 1e-15);
    EXPECT_LT(plan.rho(), 0.004 + 1e-4 * noise_multiplier);
    options.expected_batch = 2000;
    EXPECT_LE(PrivacyPlan(options).block_size() * 64, plan.num_examples());
    options.expected_batch = mnist_options().expected_batch;
    EXPECT_EQ(std::exp2(std::round(std::log2(plan.lattice_step(plan.clipping_norm())))),
              plan.lattice_step(plan.clipping_norm()));
    EXPECT_GE(plan.lattice_step(plan.clipping_norm()), plan.noise_stddev() * 0x1p-24);
    EXPECT_LE(plan.lattice_step(plan.clipping_norm()), plan.noise_stddev() * 0x1p-20);
  }
  options.num_parameters = 0;
  EXPECT_THROW(PrivacyPlan{options}, UsageError);
  options.num_parameters = 26010;
  options.noise_multiplier = 1e-12;
  EXPECT_THROW(PrivacyPlan{options}, UsageError) << "sums of so small steps may overflow";
}

TEST(PrivacyPlan, Invariant_P12_EveryTermOfTheContractChangesTheHash) {
  const std::string hash = PrivacyPlan(mnist_options()).hash();
  EXPECT_EQ(hash.size(), 64);
  EXPECT_EQ(PrivacyPlan(mnist_options()).hash(), hash);
  const std::vector<std::function<void(PlanOptions&)>> changes = {
      [](PlanOptions& o) { o.num_examples += 1; },
      [](PlanOptions& o) { o.dataset_id += "x"; },
      [](PlanOptions& o) { o.expected_batch = std::nextafter(o.expected_batch, 1000); },
      [](PlanOptions& o) { o.steps += 1; },
      [](PlanOptions& o) { o.reserve_steps += 1; },
      [](PlanOptions& o) { o.noise_multiplier = std::nextafter(o.noise_multiplier, 2); },
      [](PlanOptions& o) { o.clipping_norm = std::nextafter(o.clipping_norm, 2); },
      [](PlanOptions& o) { o.delta = 1e-6; },
      [](PlanOptions& o) { o.max_microbatch = 64; },
      [](PlanOptions& o) { o.world_size = 5; },
      [](PlanOptions& o) { o.secure_seed = false; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    PlanOptions options = mnist_options();
    changes[i](options);
    EXPECT_NE(PrivacyPlan(options).hash(), hash) << "change " << i;
  }
}

TEST(PrivacyPlan, RefusesWhatMakesNoSense) {
  const std::vector<std::function<void(PlanOptions&)>> faults = {
      [](PlanOptions& o) { o.num_examples = 0; },
      [](PlanOptions& o) { o.dataset_id = ""; },
      [](PlanOptions& o) { o.expected_batch = 0; },
      [](PlanOptions& o) { o.expected_batch = NAN; },
      [](PlanOptions& o) { o.expected_batch = 60001; },
      [](PlanOptions& o) { o.steps = 0; },
      [](PlanOptions& o) { o.reserve_steps = -1; },
      [](PlanOptions& o) { o.noise_multiplier = -1; },
      [](PlanOptions& o) { o.noise_multiplier = INFINITY; },
      [](PlanOptions& o) { o.clipping_norm = 0; },
      [](PlanOptions& o) { o.delta = 0; },
      [](PlanOptions& o) { o.delta = 1; },
      [](PlanOptions& o) { o.max_microbatch = 0; },
      [](PlanOptions& o) { o.world_size = 0; },
      [](PlanOptions& o) { o.adjacency = "replace-one"; },
  };
  for (std::size_t i = 0; i < faults.size(); ++i) {
    PlanOptions options = mnist_options();
    faults[i](options);
    EXPECT_THROW(PrivacyPlan{options}, UsageError) << "fault " << i;
  }
}

void expect_refused(const Json& json, const std::string& why) {
  try {
    (void)PrivacyPlan::from_json(json, "here");
    ADD_FAILURE() << "accepted: " << why;
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("here"));
    EXPECT_THAT(e.what(), HasSubstr(why));
  }
}

TEST(PrivacyPlan, RefusesAFileThatClaimsLessThanTheProofNeeds) {
  const Json json = PrivacyPlan(mnist_options()).to_json();
  Json changed = json;
  changed["rounding"]["rho"] = json["rounding"]["rho"].get<double>() * 0.99;
  expect_refused(changed, "does not cover");
  changed = json;
  changed["rounding"]["tail"] = 0.0;
  expect_refused(changed, "does not cover");
  changed = json;
  changed["rounding"]["block_size"] = 60000;
  expect_refused(changed, "does not cover");
  changed = json;
  changed["noise_stddev"] = json["noise_stddev"].get<double>() * 0.5;
  expect_refused(changed, "noise_stddev");
  changed = json;
  changed["sample_rate"] = 0.001;
  expect_refused(changed, "sample_rate");
  changed = json;
  changed["sampler"] = "shuffle";
  expect_refused(changed, "sampler");
  changed = json;
  changed["max_batch"] = 300;
  expect_refused(changed, "unknown key 'max_batch'");
  changed = json;
  changed.erase("clipping_norm");
  expect_refused(changed, "clipping_norm");
}

TEST(PrivacyPlan, DifferencesNameBothValuesAndIgnoreTheNumberOfRanks) {
  const PrivacyPlan before(mnist_options());
  PlanOptions options = mnist_options();
  options.world_size = 64;
  EXPECT_TRUE(plan_differences(before, PrivacyPlan(options)).empty());
  options.clipping_norm = 0.5;
  EXPECT_THAT(plan_differences(before, PrivacyPlan(options)), testing::ElementsAre("clipping_norm 0.1 became 0.5"));
}

TEST(MicrobatchCuts, CoverTheDrawInsideBlocksAndWithinTheSize) {
  PlanOptions options = mnist_options();
  options.max_microbatch = 16;
  const PrivacyPlan plan(options);
  std::mt19937_64 random(3);
  for (const double rate : {0.0, 0.001, plan.sample_rate(), 0.3, 1.0}) {
    std::vector<std::int64_t> ids;
    std::bernoulli_distribution drawn(rate);
    for (std::int64_t id = 0; id < plan.num_examples(); ++id) {
      if (drawn(random)) ids.push_back(id);
    }
    const std::vector<std::int64_t> cuts = plan.microbatch_cuts(ids);
    ASSERT_EQ(cuts.front(), 0);
    ASSERT_EQ(cuts.back(), static_cast<std::int64_t>(ids.size()));
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      const auto first = static_cast<std::size_t>(cuts[c]);
      const auto last = static_cast<std::size_t>(cuts[c + 1] - 1);
      ASSERT_LE(first, last);
      ASSERT_LE(cuts[c + 1] - cuts[c], plan.microbatch());
      ASSERT_EQ(ids[first] / plan.block_size(), ids[last] / plan.block_size());
    }
  }
}

TEST(MicrobatchCuts, Invariant_P5_ARemovalChangesOneMicrobatchOnly) {
  const PrivacyPlan plan(mnist_options());
  std::mt19937_64 random(5);
  std::bernoulli_distribution drawn(plan.sample_rate());
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; id < plan.num_examples(); ++id) {
    if (drawn(random)) ids.push_back(id);
  }
  const auto members = [&](const std::vector<std::int64_t>& draw) {
    std::vector<std::vector<std::int64_t>> sets;
    const std::vector<std::int64_t> cuts = plan.microbatch_cuts(draw);
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      sets.emplace_back(draw.begin() + cuts[c], draw.begin() + cuts[c + 1]);
    }
    return sets;
  };
  const auto with = members(ids);
  ASSERT_GT(with.size(), 1);
  for (std::size_t removed = 0; removed < ids.size(); ++removed) {
    std::vector<std::int64_t> fewer = ids;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(removed));
    const auto without = members(fewer);
    std::size_t unchanged = 0;
    for (const auto& set : with) unchanged += std::count(without.begin(), without.end(), set) > 0 ? 1U : 0U;
    ASSERT_EQ(unchanged, with.size() - 1);
  }
}

TEST(MicrobatchCuts, AnEmptyDrawHasNoMicrobatch) {
  EXPECT_THAT(PrivacyPlan(mnist_options()).microbatch_cuts({}), testing::ElementsAre(0));
}

TEST(MicrobatchCuts, RefuseIdsThatDoNotAscendOrAreOutOfRange) {
  const PrivacyPlan plan(mnist_options());
  EXPECT_THROW((void)plan.microbatch_cuts(std::vector<std::int64_t>{3, 3}), UsageError);
  EXPECT_THROW((void)plan.microbatch_cuts(std::vector<std::int64_t>{60000}), UsageError);
  EXPECT_THROW((void)plan.microbatch_cuts(std::vector<std::int64_t>{-1}), UsageError);
}

}  // namespace
}  // namespace ripieno
