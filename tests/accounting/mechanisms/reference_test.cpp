#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/engine/calibrate.hpp>
#include <ripieno/accounting/engine/mechanisms.hpp>
#include <ripieno/accounting/ledger/schedule.hpp>
#include <ripieno/accounting/mechanisms/attacks.hpp>
#include <ripieno/accounting/mechanisms/random_allocation.hpp>
#include <ripieno/accounting/mechanisms/sampling.hpp>

#include "../infinity.hpp"

namespace ripieno::accounting {
namespace {

const Json& reference() {
  static const Json file = read_json(RIPIENO_TEST_DATA "/reference_epsilons.json");
  return file;
}

double number(const Json& json) { return json.is_string() ? k_inf : json.get<double>(); }

Process poisson_steps(const Json& row) {
  return poisson(gaussian(row.at("noise_multiplier")), row.at("sample_rate")) * row.at("steps").get<std::int64_t>();
}

// Its fixed grid makes the reference up to 4 % too large where there are very many steps.
TEST(Reference, SampledGaussians) {
  ASSERT_EQ(reference().at("poisson_gaussian").size(), 53);
  for (const Json& row : reference().at("poisson_gaussian")) {
    const double expected = row.at("epsilon");
    const Interval found = poisson_steps(row).epsilon_at(row.at("delta"));
    EXPECT_LE(found.lower, expected * (1 + 1e-6)) << row;
    EXPECT_LE(found.upper, expected * (1 + 1e-3)) << row;
    EXPECT_GE(found.upper, expected * (1 - (row.at("steps") >= 20000 ? 0.05 : 1e-3))) << row;
  }
  for (const Json& row : reference().at("gaussian")) {
    const double expected = row.at("epsilon");
    EXPECT_NEAR(gaussian(row.at("noise_multiplier")).epsilon_at(row.at("delta")).upper, expected, 1e-3 * expected)
        << row;
  }
}

// Deltas below 1e-10 are the reference's noise floor.
TEST(Reference, OtherFigures) {
  for (const Json& row : reference().at("metrics")) {
    const Process process = poisson_steps(row);
    for (const auto& [epsilon, expected] : row.at("delta_at").items()) {
      if (expected.get<double>() < 1e-10) continue;
      const double found = process.delta_at(std::stod(epsilon)).upper;
      EXPECT_LE(found, expected.get<double>() * (1 + 1e-3)) << row;
      EXPECT_GE(found, expected.get<double>() * (1 - 7e-3)) << row;
    }
    for (const auto& [alpha, expected] : row.at("beta_at").items()) {
      if (alpha == "0.0" || alpha == "1.0") continue;
      const Interval found = process.beta_at(std::stod(alpha));
      EXPECT_GE(found.upper, expected.get<double>() - 1e-3) << row;
      EXPECT_LE(found.lower, expected.get<double>() + 3e-3) << row;
    }
    EXPECT_LE(process.advantage().upper, row.at("advantage").get<double>() + 1e-3) << row;
    EXPECT_GE(process.advantage().upper, row.at("advantage").get<double>() * (1 - 7e-3)) << row;
    for (const auto& [prior, expected] : row.at("risk_at").items()) {
      EXPECT_GE(membership_risk(process, std::stod(prior)), expected.get<double>() - 1e-3) << row;
      EXPECT_LE(membership_risk(process, std::stod(prior)), expected.get<double>() + 3e-3) << row;
    }
  }
}

TEST(Reference, Compositions) {
  const auto p = [](double z, double q) { return poisson(gaussian(z), q); };
  const std::map<std::string, Process> processes = {
      {"P(1.1,.01)*500 | P(0.9,.01)*500", p(1.1, .01) * 500 | p(0.9, .01) * 500},
      {"P(1.0,.02)*200 | G(4.0)*3", p(1, .02) * 200 | gaussian(4) * 3},
      {"P(1,.01)*100 | P(2,.05)*300 | P(0.8,.001)*1000", p(1, .01) * 100 | p(2, .05) * 300 | p(0.8, .001) * 1000},
      {"eps_delta(1,1e-6) | P(1.1,.01)*1000", epsilon_delta(1, 1e-6) | p(1.1, .01) * 1000},
      {"eps_delta(0.5,0)*2", epsilon_delta(0.5, 0) * 2},
      {"identity", identity()},
      {"nonprivate", non_private()},
      {"nonprivate | G(1)", non_private() | gaussian(1)},
      {"P(nonprivate,.01)", poisson(non_private(), .01)},
      {"gaussian(0)", gaussian(0)}};
  ASSERT_EQ(reference().at("composition").size(), processes.size());
  for (const Json& row : reference().at("composition")) {
    const std::string name = row.at("process");
    const Process& process = processes.at(name);
    // The reference gives an (epsilon, delta) release all of its epsilon at once; randomised response is what it is
    // worth.
    const double lowest = name.starts_with("eps_delta(1") ? 0.98 : 1 - 1e-3;
    for (const auto& [delta, json] : row.at("epsilon").items()) {
      const double expected = number(json);
      const double found = process.epsilon_at(std::stod(delta)).upper;
      EXPECT_LE(found, expected * (1 + 1e-3)) << name;
      if (std::isfinite(expected))
        EXPECT_GE(found, expected * lowest) << name;
      else
        EXPECT_EQ(found, expected) << name;
    }
    EXPECT_LE(process.delta_at(1).upper, number(row.at("delta_at_1")) * (1 + 1e-3) + 1e-11) << name;
  }
}

TEST(Reference, Samplers) {
  int rows = 0;
  for (const Json& row : reference().at("other")) {
    const std::string name = row.at("process");
    const Json& x = row.at("params");
    Process process;
    double lowest = 1 - 1e-3;
    if (name == "truncated_poisson") {
      process = truncated_poisson(gaussian(x.at("noise_multiplier")), x.at("sample_rate"), x.at("dataset_size"),
                                  x.at("truncated_batch_size")) *
                x.at("steps").get<std::int64_t>();
      lowest = 0.88;  // a full batch replaces an example by two clipping norms at most, and only as often as it is full
    } else if (name == "parallel_poisson") {
      process = parallel_poisson(gaussian(x.at("noise_multiplier")), x.at("sample_rate"), x.at("num_workers")) *
                x.at("steps").get<std::int64_t>();
    } else if (name == "poisson(adaclip)") {
      const ClippedCount count{x.at("expected_batch_size").get<double>() * x.at("fraction_noise_std").get<double>(),
                               x.at("num_groups"), true};
      process = poisson(gaussian(joint_noise_multiplier(x.at("noise_multiplier"), count)), x.at("sample_rate")) *
                x.at("steps").get<std::int64_t>();
    } else {
      continue;
    }
    ++rows;
    const double expected = row.at("epsilon").at("1e-05");
    const double found = process.epsilon_at(1e-5).upper;
    EXPECT_LE(found, expected * (1 + 1e-3)) << row;
    EXPECT_GE(found, expected * lowest) << row;
  }
  EXPECT_EQ(rows, 12);
}

TEST(Reference, RandomAllocations) {
  int rows = 0;
  for (const Json& row : reference().at("allocation")) {
    const std::string name = row.at("process");
    const Json& x = row.at("params");
    Process process;
    if (name == "k_out_of_t") {
      process = k_out_of_t(x.at("noise_multiplier"), x.at("k"), x.at("t"),
                           x.at("allocation") == "block" ? Allocation::block : Allocation::total);
    } else if (name == "balls_in_bins(identity)") {
      process = balls_in_bins(x.at("noise_multiplier"), x.at("num_bins"), x.at("n_steps"));
    } else {
      continue;
    }
    ++rows;
    const double expected = row.at("epsilon").at("1e-05");
    EXPECT_NEAR(process.epsilon_at(1e-5).upper, expected, 5e-3 * expected) << row;
  }
  EXPECT_EQ(rows, 13);
}

// The least noise for which an upper bound on what `of` tells of 1000 steps at sample rate 0.01 is at most the target.
double calibrated(double target, const std::function<double(const Process&)>& of) {
  return calibrate(target, [&of](double z) { return of(poisson(gaussian(z), .01) * 1000); });
}

TEST(Reference, Calibration) {
  const auto& rows = reference().at("calibration");
  const double q = 256.0 / 60000;
  const double expected[] = {calibrate_noise_multiplier(3, 1e-5, .01, 1000),
                             calibrate_noise_multiplier(8, 1e-5, q, 14062),
                             calibrate_noise_multiplier(1, 1e-6, .02, 5000),
                             calibrated(1e-6, [](const Process& p) { return p.delta_at(2).upper; }),
                             calibrated(.1, [](const Process& p) { return p.advantage().upper; }),
                             calibrated(.1, [](const Process& p) { return 1 - p.beta_at(.05).lower; }),
                             calibrate_sample_rate(1, 1000, 3, 1e-5)};
  ASSERT_EQ(rows.size(), std::size(expected));
  // Its grid makes delta up to 7e-3 too large, and so asks for up to 3e-3 more noise where a delta is the target.
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double param = rows.at(i).at("param");
    EXPECT_GE(param, expected[i] * (1 - 1e-3)) << rows.at(i);
    EXPECT_LE(param, expected[i] * (i < 3 ? 1 + 1e-3 : 1 + 3e-3)) << rows.at(i);
  }
}

// How the reference falls to the truth as its grid gets finer: every row is an upper bound, the finest nearly exact.
TEST(Reference, FinerGridsComeDownToTheTruth) {
  const Process process = poisson(gaussian(1.1), .01) * 1000;
  const Interval epsilon = process.epsilon_at(1e-5);
  const Interval delta = process.delta_at(1.5);
  const auto& rows = reference().at("discretization");
  ASSERT_EQ(rows.size(), 4);
  double excess = k_inf;
  for (const Json& row : rows) {
    EXPECT_LT(epsilon.upper, row.at("epsilon").get<double>()) << row;
    EXPECT_LT(delta.upper, row.at("delta_at_1.5").get<double>()) << row;
    EXPECT_LT(row.at("epsilon").get<double>() - epsilon.lower, excess) << row;
    excess = row.at("epsilon").get<double>() - epsilon.lower;
  }
  EXPECT_LT(excess, 1e-4 * epsilon.lower);
  EXPECT_LT(rows.back().at("delta_at_1.5").get<double>(), delta.lower * (1 + 1e-3));
}

}  // namespace
}  // namespace ripieno::accounting
