#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/engine/mechanisms.hpp>
#include <ripieno/accounting/ledger/analysis.hpp>
#include <ripieno/accounting/ledger/pairing.hpp>
#include <ripieno/accounting/mechanisms/random_allocation.hpp>
#include <ripieno/accounting/mechanisms/sampling.hpp>

#include "ledger_fixture.hpp"

namespace ripieno::ledger {
namespace {

using accounting::Encoder;
using testing::Builder;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double k_delta = 1e-5;
constexpr double k_of_the_tail = 1e-8;  // what the rounding tail of the plan, 1e-15 of delta, adds to epsilon

PlanOptions options_for(SamplerPlan sampler, std::optional<accounting::Strategy> strategy = {}) {
  PlanOptions options{.num_examples = 600,
                      .dataset_id = "7d9f5d3e-8f0f-4a41-9d53-1c1b7f7f1e11",
                      .expected_batch = 60,
                      .steps = 24,
                      .noise_multiplier = 4,
                      .clipping_norm = 1,
                      .delta = k_delta};
  options.sampler = sampler;
  options.strategy = std::move(strategy);
  if (sampler.kind == SamplerKind::sequential) options.adjacency = "zero-out";
  return options;
}

double epsilon_of(const Ledger& book) { return epsilons(analyse({book}), std::array{k_delta}).front().epsilon.upper; }

// --- epsilon from the text of a ledger, by nothing but dense matrices and the definition ---

using Matrix = std::vector<std::vector<double>>;

/// C of the plan's strategy, written out from its formula.
Matrix dense_encoder(const Json& plan) {
  const std::size_t steps = plan.at("steps");
  const Json& strategy = plan.at("strategy");
  std::vector<double> column(steps, 0.0);
  column[0] = 1;
  const std::string name = strategy.at("name");
  if (name == "blt") {
    const std::vector<double> weights = strategy.at("weights"), decays = strategy.at("decays");
    for (std::size_t t = 1; t < steps; ++t) {
      for (std::size_t b = 0; b < weights.size(); ++b)
        column[t] += weights[b] * std::pow(decays[b], static_cast<double>(t - 1));
    }
  } else if (name == "band-mf") {
    const std::vector<double> bands = strategy.at("coefficients");
    std::ranges::copy(bands, column.begin());
  } else {
    const double lambda = strategy.at("lambda");
    for (std::size_t t = 1; t < steps; ++t) column[t] = std::pow(lambda, static_cast<double>(t));
  }
  Matrix encoder(steps, std::vector<double>(steps, 0.0));
  for (std::size_t j = 0; j < steps; ++j) {
    double norm = 0;
    for (std::size_t i = j; i < steps; ++i) norm += column[i - j] * column[i - j];
    const bool scaled = strategy.value("normalised", false);
    for (std::size_t i = j; i < steps; ++i) encoder[i][j] = column[i - j] / (scaled ? std::sqrt(norm) : 1);
  }
  return encoder;
}

/// Largest norm that participations every `period` steps reach in the rows that the records name, over all segments.
double dense_sensitivity(const Matrix& encoder, const std::vector<std::pair<int, int>>& rows, int period) {
  const auto steps = static_cast<int>(encoder.size());
  double largest = 0;
  for (int first = 0; first < period; ++first) {
    double square = 0;
    for (const auto& [begin, end] : rows) {
      for (int row = begin; row < end; ++row) {
        double sum = 0;  // entries are not negative: gradients in one direction are the worst
        for (int j = first; j < steps; j += period)
          sum += encoder[static_cast<std::size_t>(row)][static_cast<std::size_t>(j)];
        square += sum * sum;
      }
    }
    largest = std::max(largest, std::sqrt(square));
  }
  return largest;
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

/// Balle & Wang 2018, solved by bisection.
double gaussian_epsilon(double mu, double delta) {
  double low = 0, high = 200;
  for (int i = 0; i < 200; ++i) {
    const double epsilon = (low + high) / 2;
    const double d = normal_cdf(mu / 2 - epsilon / mu) - std::exp(epsilon) * normal_cdf(-mu / 2 - epsilon / mu);
    (d > delta ? low : high) = epsilon;
  }
  return high;
}

/// From the text alone.
double dense_epsilon(const std::string& text) {
  std::vector<std::pair<int, int>> rows;
  Json plan;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    if (json.contains("segment")) {
      plan = json.at("plan");
      rows.emplace_back(json.at("first_step"), json.at("first_step"));
    } else if (json.contains("seg")) {
      EXPECT_EQ(json.at("step"), rows.back().second++);
    }
  }
  const int period = static_cast<int>(plan.at("num_examples").get<int>() / plan.at("expected_batch").get<double>());
  const double sensitivity = dense_sensitivity(dense_encoder(plan), rows, period);
  return gaussian_epsilon(sensitivity / plan.at("noise_multiplier").get<double>(), k_delta);
}

std::vector<accounting::Strategy> written_out() {
  return {accounting::BltStrategy{{0.2, 0.3}, {0.95, 0.6}}, accounting::BandMfStrategy{{0.8, 0.5, 0.3}},
          accounting::LambdaCgdStrategy{0.7, false}, accounting::LambdaCgdStrategy{0.7, true}};
}

TEST(Pairing, ADenseComputationFromTheLedgerFindsTheEpsilonThatAnalyseSays) {
  for (const accounting::Strategy& strategy : written_out()) {
    for (const SamplerKind kind : {SamplerKind::sequential, SamplerKind::balls_in_bins}) {
      const PlanOptions options = options_for({.kind = kind}, strategy);
      for (const std::int64_t records : {24, 17, 1}) {
        const Builder book = Builder(options).segment(options).steps(0, records);
        EXPECT_NEAR(epsilon_of(parse(book.text, "book")) / dense_epsilon(book.text), 1, 1e-9) << records;
      }
    }
  }
}

TEST(Pairing, RowsLostInACrashAreFurtherRowsOfTheEncoder) {
  for (const accounting::Strategy& strategy : written_out()) {
    const PlanOptions options = options_for({.kind = SamplerKind::sequential}, strategy);
    const Builder once = Builder(options).segment(options).steps(0, 24);
    const Builder book = Builder(options)
                             .segment(options)
                             .steps(0, 14)
                             .segment(options, 8, 'b')
                             .steps(8, 19)
                             .segment(options, 19, 'c')
                             .steps(19, 24);
    const double epsilon = epsilon_of(parse(book.text, "book"));
    EXPECT_NEAR(epsilon / dense_epsilon(book.text), 1, 1e-9);
    EXPECT_GT(epsilon, epsilon_of(parse(once.text, "once")) * 1.01);
    // Where no row was lost, keys may have changed but nothing is paid for it.
    const Builder clean = Builder(options).segment(options).steps(0, 11).segment(options, 11, 'b').steps(11, 24);
    EXPECT_NEAR(epsilon_of(parse(clean.text, "clean")) / epsilon_of(parse(once.text, "once")), 1, 1e-12);
  }
}

TEST(Pairing, AnotherPatternIsARunOfItsOwn) {
  const PlanOptions options = options_for({.kind = SamplerKind::sequential}, written_out()[0]);
  const Builder book =
      Builder(options).segment(options, 0, 'a', 'd').steps(0, 10).segment(options, 0, 'b', 'e').steps(0, 24);
  const Pairing pairing = PrivacyPlan(options).pairing();
  const double expected = (released(pairing, 10) | released(pairing, 24)).epsilon_at(k_delta).upper;
  EXPECT_NEAR(epsilon_of(parse(book.text, "book")), expected, k_of_the_tail);
}

TEST(Pairing, ARunCannotGoOnWhereItHasNotCome) {
  const PlanOptions options = options_for({.kind = SamplerKind::sequential}, written_out()[0]);
  const Builder book = Builder(options).segment(options).steps(0, 10).segment(options, 12, 'b').steps(12, 13);
  EXPECT_THAT([&] { (void)analyse({parse(book.text, "book")}); },
              ThrowsMessage<PrivacyError>(HasSubstr("it had come to step 10 only")));
}

TEST(Pairing, EverySamplerIsAccountedForByItsOwnTheorem) {
  using namespace accounting;
  const auto found = [](SamplerPlan sampler) {
    const PlanOptions options = options_for(sampler);
    const Builder book = Builder(options).segment(options).steps(0, 24);
    return epsilon_of(parse(book.text, "book"));
  };
  const auto expected = [](const Process& process) { return process.epsilon_at(k_delta).upper; };
  EXPECT_NEAR(found({}), expected(poisson(gaussian(4), 0.1) * 24), k_of_the_tail);
  EXPECT_NEAR(found({.kind = SamplerKind::truncated_poisson, .max_batch = 90}),
              expected(truncated_poisson(gaussian(4), 0.1, 601, 90) * 24), k_of_the_tail);
  // Parts 0, 1, 2 and 3 of five have five of the 24 steps, at five times the rate.
  EXPECT_NEAR(found({.kind = SamplerKind::cyclic_poisson, .parts = 5}), expected(poisson(gaussian(4), 0.5) * 5),
              k_of_the_tail);
  EXPECT_NEAR(found({.kind = SamplerKind::balls_in_bins}), expected(balls_in_bins(4, 10, 30)), k_of_the_tail);
  EXPECT_NEAR(found({.kind = SamplerKind::min_separated, .separation = 5}), gaussian_epsilon(std::sqrt(5) / 4, k_delta),
              1e-9);
  EXPECT_NEAR(found({.kind = SamplerKind::sequential}), gaussian_epsilon(std::sqrt(3) / 4, k_delta), 1e-9);
  PlanOptions allocation = options_for({.kind = SamplerKind::k_out_of_t});
  allocation.expected_batch = 50;  // two of 24 steps
  const Builder book = Builder(allocation).segment(allocation).steps(0, 24);
  EXPECT_NEAR(epsilon_of(parse(book.text, "book")), expected(k_out_of_t(4, 2, 24, Allocation::block)), k_of_the_tail);
}

TEST(Pairing, BandsAreAmplifiedByCyclicSampling) {
  const accounting::BandMfStrategy bands{{0.8, 0.5, 0.3}};
  const PlanOptions options = options_for({.kind = SamplerKind::cyclic_poisson, .parts = 4}, bands);
  const Builder book = Builder(options).segment(options).steps(0, 24);
  const double norm = std::sqrt(0.64 + 0.25 + 0.09);
  const double expected = (poisson(accounting::gaussian(4 / norm), 0.4) * 6).epsilon_at(k_delta).upper;
  EXPECT_NEAR(epsilon_of(parse(book.text, "book")), expected, 1e-9);
  const Builder resumed = Builder(options).segment(options).steps(0, 14).segment(options, 8, 'b').steps(8, 24);
  EXPECT_THROW((void)analyse({parse(resumed.text, "resumed")}), PrivacyError);
}

TEST(Pairing, StepsDoneAgainOverOneDrawAreOneReleaseWithLessNoise) {
  const PlanOptions options = options_for({.kind = SamplerKind::balls_in_bins});
  const Builder book = Builder(options).segment(options).steps(0, 14).segment(options, 8, 'b').steps(8, 24);
  EXPECT_NEAR(epsilon_of(parse(book.text, "book")),
              accounting::balls_in_bins(4 / std::sqrt(2.0), 10, 30).epsilon_at(k_delta).upper, k_of_the_tail);
  const PlanOptions cyclic = options_for({.kind = SamplerKind::cyclic_poisson, .parts = 5});
  const Builder again = Builder(cyclic).segment(cyclic).steps(0, 14).segment(cyclic, 8, 'b').steps(8, 24);
  // Steps 8 to 13 twice: parts 3 and others have up to seven releases.
  EXPECT_NEAR(epsilon_of(parse(again.text, "again")),
              (accounting::poisson(accounting::gaussian(4), 0.5) * 7).epsilon_at(k_delta).upper, k_of_the_tail);
}

TEST(Pairing, RefusesWhatHasNoValidAccounting) {
  const accounting::Strategy blt = written_out()[0];
  EXPECT_THAT([&] { (void)PrivacyPlan(options_for({}, blt)); },
              ThrowsMessage<UsageError>(HasSubstr("mf:blt cannot be used with the sampler poisson")));
  EXPECT_THROW((void)PrivacyPlan(options_for({.kind = SamplerKind::truncated_poisson, .max_batch = 90}, blt)),
               UsageError);
  EXPECT_THAT([&] { (void)PrivacyPlan(options_for({.kind = SamplerKind::cyclic_poisson, .parts = 4}, blt)); },
              ThrowsMessage<UsageError>(HasSubstr("more than 4 bands")));
  PlanOptions adaptive = options_for({.kind = SamplerKind::sequential}, blt);
  adaptive.clipping = ClippingKind::adaptive;
  EXPECT_THAT([&] { (void)PrivacyPlan(adaptive); }, ThrowsMessage<UsageError>(HasSubstr("correlated noise")));
  adaptive.strategy.reset();
  EXPECT_THROW((void)PrivacyPlan(adaptive), UsageError);
  PlanOptions reserve = options_for({.kind = SamplerKind::sequential});
  reserve.reserve_steps = 3;
  EXPECT_THAT([&] { (void)PrivacyPlan(reserve); }, ThrowsMessage<UsageError>(HasSubstr("in reserve")));
  PlanOptions adjacency = options_for({.kind = SamplerKind::sequential});
  adjacency.adjacency = "add-remove";
  EXPECT_THAT([&] { (void)PrivacyPlan(adjacency); }, ThrowsMessage<UsageError>(HasSubstr("available: zero-out")));
}

TEST(Pairing, LedgersOfDifferentAdjacencyDoNotCompose) {
  const PlanOptions fixed = options_for({.kind = SamplerKind::sequential}), drawn = options_for({});
  const Builder a = Builder(fixed).segment(fixed).steps(0, 2), b = Builder(drawn).segment(drawn, 0, 'b').steps(0, 2);
  EXPECT_THAT(
      [&] {
        (void)analyse({parse(a.text, "a"), parse(b.text, "b")});
      },
      ThrowsMessage<PrivacyError>(HasSubstr("under adjacency zero-out and add-remove")));
}

TEST(Pairing, PlansReadBackWithTheirHash) {
  for (const accounting::Strategy& strategy : written_out()) {
    const PrivacyPlan plan(options_for({.kind = SamplerKind::min_separated, .separation = 4}, strategy));
    const PrivacyPlan back = PrivacyPlan::from_json(Json::parse(plan.to_json().dump()));
    EXPECT_EQ(back.hash(), plan.hash());
    EXPECT_EQ(back.options().sampler, plan.options().sampler);
  }
  Json json = PrivacyPlan(options_for({.kind = SamplerKind::min_separated, .separation = 4})).to_json();
  json["sampling"]["surprise"] = 1;
  EXPECT_THROW((void)PrivacyPlan::from_json(json), DataError);
  json = PrivacyPlan(options_for({})).to_json();
  json["mechanism"] = "mf:blt";
  EXPECT_THROW((void)PrivacyPlan::from_json(json), DataError);
}

TEST(Pairing, SchedulesSayWhatDoesNotFit) {
  const auto schedule = [](SamplerPlan sampler, double batch) { return SamplingSchedule(sampler, 600, batch, 24); };
  EXPECT_THAT([&] { schedule({.kind = SamplerKind::sequential}, 59.5); },
              ThrowsMessage<UsageError>(HasSubstr("use 60")));
  EXPECT_THAT([&] { schedule({.kind = SamplerKind::balls_in_bins}, 59); },
              ThrowsMessage<UsageError>(HasSubstr("use 60")));
  EXPECT_THAT([&] { schedule({.kind = SamplerKind::k_out_of_t}, 60); }, ThrowsMessage<UsageError>(HasSubstr("use 50")));
  EXPECT_THAT([&] { schedule({.kind = SamplerKind::cyclic_poisson, .parts = 11}, 60); },
              ThrowsMessage<UsageError>(HasSubstr("every 11 steps at most")));
  EXPECT_THROW(schedule({.kind = SamplerKind::min_separated, .separation = 11}, 60), UsageError);
  EXPECT_THROW(schedule({.kind = SamplerKind::cyclic_poisson}, 60), UsageError);
  EXPECT_THROW(schedule({.kind = SamplerKind::poisson, .parts = 3}, 60), UsageError);
  EXPECT_THROW(schedule({}, 0), UsageError);
}

}  // namespace
}  // namespace ripieno::ledger
