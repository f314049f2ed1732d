#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/mechanisms/encoder.hpp>
#include <ripieno/accounting/mechanisms/minimise.hpp>
#include <ripieno/accounting/mechanisms/optimise.hpp>
#include <ripieno/accounting/mechanisms/strategy_json.hpp>

namespace ripieno::accounting {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Strategies that the reference optimised, by L-BFGS: its tolerance is in the file.
const Json& reference() {
  static const Json file = read_json(RIPIENO_TEST_DATA "/mf_optimised.json");
  return file;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Workload workload_of(const Json& entry) {
  const double momentum = entry.at("momentum");
  Workload workload{{momentum}};
  if (entry.contains("learning_rates")) workload.learning_rates = entry.at("learning_rates").get<std::vector<double>>();
  return workload;
}

TEST(Optimise, BandedStrategiesAreThoseOfTheReference) {
  for (const Json& entry : reference().at("band_mf")) {
    const std::int64_t steps = entry.at("n");
    const BandMfStrategy found = optimal_band_mf(entry.at("bands"), steps, workload_of(entry));
    const std::vector<double> expected = entry.at("coefficients");
    ASSERT_EQ(found.coefficients.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found.coefficients[i], expected[i], 1e-4);
    const std::vector<double> errors = squared_errors(inverse_coefficients(found, steps), {});
    EXPECT_NEAR(mean(errors) / entry.at("mean_error_sq").get<double>(), 1, 1e-6) << entry.at("name");
    EXPECT_NEAR(errors.back() / entry.at("max_error_sq").get<double>(), 1, 1e-6) << entry.at("name");
  }
}

TEST(Optimise, BufferedStrategiesAreThoseOfTheReferenceOrBetter) {
  for (const Json& entry : reference().at("blt")) {
    const std::int64_t steps = entry.at("n");
    ParticipationSchema schema{.min_separation = entry.at("min_sep")};
    if (!entry.at("max_participations").is_null()) schema.max_participations = entry.at("max_participations");
    const Workload workload = workload_of(entry);
    const auto loss = [&](const BltStrategy& blt) {
      const double sensitivity_of = sensitivity(Encoder(blt, steps), schema).value;
      return std::ranges::max(squared_errors(inverse_coefficients(blt, steps), workload)) * sensitivity_of *
             sensitivity_of;
    };
    const BltStrategy found = optimal_blt(entry.at("max_buffers"), steps, schema, workload);
    const BltStrategy expected{entry.at("weights"), entry.at("decays")};
    EXPECT_LE(loss(found), loss(expected) * (1 + 1e-6)) << entry.at("name") << " " << steps;
    if (found.decays.size() != expected.decays.size() || !entry.at("unique").get<bool>()) continue;
    for (std::size_t i = 0; i < expected.decays.size(); ++i) {
      EXPECT_NEAR(found.decays[i], expected.decays[i], 1e-4) << entry.at("name") << " " << steps;
      EXPECT_NEAR(found.weights[i], expected.weights[i], 1e-4) << entry.at("name") << " " << steps;
    }
  }
}

TEST(Optimise, NoNeighbourIsBetter) {
  const Workload workload{{1, 0.9}};
  const auto loss = [&](const std::vector<double>& column) {
    double norm = 0;
    for (const double c : column) norm += c * c;
    return mean(squared_errors(inverse_coefficients(BandMfStrategy{column}, 40), workload)) * norm;
  };
  const std::vector<double> best = optimal_band_mf(5, 40, workload).coefficients;
  for (std::size_t i = 0; i < best.size(); ++i) {
    for (const double change : {-1e-3, 1e-3}) {
      std::vector<double> other = best;
      other[i] += change;
      EXPECT_GT(loss(other), loss(best));
    }
  }
}

TEST(Optimise, SquaredErrorsAreThoseOfTheDenseProduct) {
  // Rows of A C^-1 for SGD with momentum 0.5 and falling rates, over a strategy of two bands.
  const std::vector<double> inverse = inverse_coefficients(BandMfStrategy{{0.8, 0.6}}, 5);
  const std::vector<double> rates = {1, 0.8, 0.6, 0.4, 0.2};
  const std::vector<double> found = squared_errors(inverse, {{1, 0.5}, rates});
  for (std::size_t t = 0; t < 5; ++t) {
    double square = 0;
    for (std::size_t s = 0; s <= t; ++s) {
      double entry = 0;
      for (std::size_t r = s; r <= t; ++r) entry += (2 - std::pow(0.5, static_cast<double>(t - r))) * inverse[r - s];
      square += entry * entry;
    }
    EXPECT_NEAR(found[t], rates[t] * rates[t] * square, 1e-12);
  }
}

TEST(Optimise, RefusesWhatMakesNoSense) {
  EXPECT_THROW((void)optimal_band_mf(0, 8), UsageError);
  EXPECT_THROW((void)optimal_band_mf(9, 8), UsageError);
  EXPECT_THROW((void)optimal_blt(16, 8, {}), UsageError);
  EXPECT_THROW((void)optimal_blt(3, 0, {}), UsageError);
  EXPECT_THROW((void)optimal_band_mf(2, 8, {{1.5}}), UsageError);
  EXPECT_THROW((void)optimal_band_mf(2, 8, {{1}, {1, 1}}), UsageError);
  EXPECT_THROW((void)optimal_band_mf(2, 2, {{1}, {0, 0}}), UsageError);
}

TEST(Minimise, FindsTheBottomOfACurvedValley) {
  const Objective rosenbrock = [](std::span<const double> x, std::span<double> gradient) {
    const double a = 1 - x[0], b = x[1] - x[0] * x[0];
    gradient[0] = -2 * a - 400 * x[0] * b;
    gradient[1] = 200 * b;
    return a * a + 100 * b * b;
  };
  const Minimum found = minimise(rosenbrock, {-1.2, 1});
  EXPECT_NEAR(found.point[0], 1, 1e-7);
  EXPECT_NEAR(found.point[1], 1, 1e-7);
}

TEST(StrategyJson, ReadsBackBitForBit) {
  DenseStrategy dense{.size = 2, .entries = {1, 0, 1.0 / 3, 2}};
  const std::vector<Strategy> all = {IdentityStrategy{},
                                     BsrStrategy{4, 0.99, 0.1},
                                     BisrStrategy{3, false, 0.9, {1, -0.4, 0.1}},
                                     LambdaCgdStrategy{1.0 / 7, true},
                                     BandMfStrategy{{0.7, 1.0 / 3}},
                                     BltStrategy{{0.1, 0.2}, {0.9, 1.0 / 3}},
                                     dense};
  for (const Strategy& strategy : all) {
    const Json json = Json::parse(strategy_to_json(strategy).dump());
    const Strategy back = strategy_from_json(json, "there");
    EXPECT_EQ(back.index(), strategy.index());
    EXPECT_EQ(strategy_to_json(back), json);
    Json other = json;
    other["surprise"] = 1;
    EXPECT_THROW((void)strategy_from_json(other, "there"), DataError);
  }
  EXPECT_THAT(
      [] {
        (void)strategy_from_json({{"name", "magic"}}, "line 2");
      },
      ThrowsMessage<DataError>(HasSubstr("line 2: unknown strategy 'magic'")));
  EXPECT_THROW((void)strategy_from_json({{"name", "dense"}, {"size", 3}, {"rows", {1, 2}}}, "there"), DataError);
}

}  // namespace
}  // namespace ripieno::accounting
