#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/mechanisms/sensitivity.hpp>

#include "reference_strategies.hpp"

namespace ripieno::accounting {
namespace {

struct Pattern {
  std::uint32_t mask;
  bool fits(const ParticipationSchema& schema) const {
    int last = -1000;
    for (int i = 0; i < 32; ++i) {
      if (!(mask >> i & 1)) continue;
      if (i - last < schema.min_separation) return false;
      last = i;
    }
    return !schema.max_participations || std::popcount(mask) <= *schema.max_participations;
  }
};

// The largest norm of a sum of columns, each with either sign, over every pattern: rows of `encoder` as often as they
// were published.
double brute_force(const Encoder& encoder, const ParticipationSchema& schema, double weight = 1) {
  const auto n = static_cast<int>(encoder.steps());
  double best = 0;
  for (std::uint32_t mask = 1; mask < 1u << n; ++mask) {
    if (!Pattern{mask}.fits(schema)) continue;
    for (std::uint32_t minus = mask;; minus = (minus - 1) & mask) {
      double sum = 0;
      for (const auto& [begin, end] : encoder.releases()) {
        for (std::int64_t row = begin; row < end; ++row) {
          double x = 0;
          for (std::int64_t i = 0; i <= row; ++i) {
            if (mask >> i & 1) x += (minus >> i & 1 ? -1 : 1) * encoder.entry(row, i);
          }
          sum += x * x;
        }
      }
      best = std::max(best, sum);
      // With no negative entry any other sign makes the sum smaller.
      if (minus == 0 || encoder.is_non_negative()) break;
    }
  }
  return weight * std::sqrt(best);
}

std::vector<ParticipationSchema> schemas(std::int64_t n) {
  std::vector<ParticipationSchema> result;
  for (std::int64_t b = 1; b <= n; b += b < 4 ? 1 : 3) {
    for (const std::int64_t k : {1, 2, 3, 5}) result.push_back({b, k});
    result.push_back({b, std::nullopt});
  }
  return result;
}

TEST(Sensitivity, OfEveryStrategyAndSchemaEqualsBruteForce) {
  for (const auto& entry : test::reference_entries()) {
    if (entry.steps != 8) continue;
    for (const std::int64_t n : {8, 11, 12}) {
      const Encoder encoder(entry.strategy, n);
      for (const ParticipationSchema& schema : schemas(n)) {
        const Sensitivity found = sensitivity(encoder, schema);
        const double expected = brute_force(encoder, schema);
        EXPECT_GE(found.value, expected * (1 - 1e-13)) << entry.name << " n " << n << " b " << schema.min_separation;
        EXPECT_EQ(found.is_exact, encoder.is_non_negative());
        // The only strategy with a negative coefficient may add what its columns do against one another.
        const double slack = encoder.is_non_negative() ? 1e-12 : 0.04;
        EXPECT_LE(found.value, expected * (1 + slack)) << entry.name << " n " << n << " b " << schema.min_separation;
      }
    }
  }
}

// Tolerance: relative 1e-12. Identity is wrong in the reference, normalised BISR and signed coefficients loose.
TEST(Sensitivity, IsThatOfTheReferenceWhereTheReferenceIsRight) {
  for (const auto& entry : test::reference_entries()) {
    const std::string kind = entry.json.at("strategy").at("kind");
    const Encoder encoder(entry.strategy, entry.steps);
    const bool is_loose = kind == "bisr" && (normalises_columns(entry.strategy) || !encoder.is_non_negative());
    for (const Json& row : entry.json.at("sensitivity")) {
      ParticipationSchema schema{row.at("min_sep"), std::nullopt};
      if (!row.at("max_participations").is_null()) schema.max_participations = row.at("max_participations");
      const double value = sensitivity(encoder, schema).value;
      const double reference = row.at("value");
      const std::int64_t k = participations(schema, entry.steps);
      if (kind == "identity") {
        EXPECT_NEAR(value, std::sqrt(static_cast<double>(k)), 1e-12 * value);
      } else if (kind == "blt" && k > 1) {
        EXPECT_GE(value, reference * (1 - 1e-9)) << "other coefficients, optimised for this schema, are better";
      } else {
        EXPECT_LE(value, reference * (1 + 1e-12)) << entry.name << " n " << entry.steps << " k " << k;
        if (is_loose) continue;
        EXPECT_GE(value, reference * (1 - 1e-12)) << entry.name << " n " << entry.steps << " k " << k;
      }
    }
  }
}

TEST(Sensitivity, OfLostRowsIsThatOfAStackedEncoder) {
  const Encoder encoder(LambdaCgdStrategy{0.9, false}, 12);
  const ParticipationSchema once{.min_separation = 12};
  EXPECT_NEAR(sensitivity(encoder, once).value, 2.201, 5e-4);
  // Three lost steps that are done again cost more than three further ones would.
  EXPECT_NEAR(sensitivity(encoder.resumed(9, 6), once).value, 2.499, 5e-4);
  EXPECT_GT(sensitivity(encoder.resumed(9, 6), once).value, sensitivity(encoder, once).value * std::sqrt(15.0 / 12));
}

TEST(Sensitivity, OfLostRowsEqualsBruteForceForEveryStrategy) {
  for (const auto& entry : test::reference_entries()) {
    if (entry.steps != 8) continue;
    const Encoder twice = Encoder(entry.strategy, 10).resumed(7, 4).resumed(9, 8);
    ASSERT_EQ(twice.releases().size(), 3);
    for (const ParticipationSchema& schema : schemas(10)) {
      const double found = sensitivity(twice, schema).value;
      const double expected = brute_force(twice, schema);
      EXPECT_GE(found, expected * (1 - 1e-13)) << entry.name;
      EXPECT_LE(found, expected * (1 + (twice.is_non_negative() ? 1e-12 : 0.04))) << entry.name;
    }
  }
}

TEST(Sensitivity, RefusesAResumeThatCannotBe) {
  const Encoder encoder(IdentityStrategy{}, 8);
  EXPECT_THROW(static_cast<void>(encoder.resumed(9, 2)), UsageError);
  EXPECT_THROW(static_cast<void>(encoder.resumed(3, 4)), UsageError);
  EXPECT_THROW(static_cast<void>(encoder.resumed(5, 4).resumed(3, 2)), UsageError);
}

TEST(Sensitivity, OfAlmostAnyMatrixIsBoundedFromAboveWhenPatternsAreTooMany) {
  // Columns of unequal size in no order, 40 steps: exact by enumeration with few participations, bounded with many.
  DenseStrategy dense{40, std::vector<double>(1600)};
  for (std::int64_t t = 0; t < 40; ++t) {
    for (std::int64_t i = 0; i <= t; ++i) {
      dense.entries[static_cast<std::size_t>(40 * t + i)] = 1.0 / static_cast<double>(1 + (7 * t + 11 * i) % 13);
    }
  }
  const Encoder encoder(dense, 40);
  const Sensitivity few = sensitivity(encoder, {2, 3});
  EXPECT_TRUE(few.is_exact);
  const Sensitivity many = sensitivity(encoder, {2, 10});
  EXPECT_FALSE(many.is_exact);
  EXPECT_GE(many.value, few.value);
  double all = 0;  // every second step
  for (std::int64_t row = 0; row < 40; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i <= std::min<std::int64_t>(row, 18); i += 2) sum += encoder.entry(row, i);
    all += sum * sum;
  }
  EXPECT_GE(many.value, std::sqrt(all));
}

TEST(Sensitivity, LongRunsTakeNoTime) {
  const auto start = std::chrono::steady_clock::now();
  const Sensitivity found = sensitivity(Encoder(BltStrategy{{0.4}, {0.95}}, 14063), {.min_separation = 234});
  EXPECT_TRUE(found.is_exact);
  EXPECT_GT(found.value, std::sqrt(61.0));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(Sensitivity, JointStreamsShareOnePattern) {
  const Encoder first(LambdaCgdStrategy{0.0, true}, 12);
  const Encoder second(BandMfStrategy{{0.5, 0.8, 0.3}}, 12);
  for (const ParticipationSchema& schema : schemas(12)) {
    const Stream streams[] = {{first, 0.7}, {second, 1.3}};
    double best = 0;
    for (std::uint32_t mask = 1; mask < 1u << 12; ++mask) {
      if (!Pattern{mask}.fits(schema)) continue;
      double sum = 0;
      for (const auto& [encoder, weight] : streams) {
        for (std::int64_t row = 0; row < 12; ++row) {
          double x = 0;
          for (std::int64_t i = 0; i <= row; ++i) x += mask >> i & 1 ? weight * encoder.entry(row, i) : 0;
          sum += x * x;
        }
      }
      best = std::max(best, sum);
    }
    EXPECT_NEAR(joint_sensitivity(streams, schema).value, std::sqrt(best), 1e-12 * std::sqrt(best));
  }
}

TEST(Participations, AreThoseOfTheReference) {
  const Json library = read_json(RIPIENO_TEST_DATA "/mf_strategies.json").at("library");
  const auto count = [](const Json& row) {
    ParticipationSchema schema{row.at("min_sep"), std::nullopt};
    if (!row.at("k").is_null()) schema.max_participations = row.at("k");
    return schema;
  };
  for (const Json& row : library.at("minsep_true_k"))
    EXPECT_EQ(participations(count(row), row.at("n")), row.at("value"));
  for (const Json& row : library.at("max_participation")) {
    const std::vector<double> x = row.at("x");
    const ParticipationSchema schema = count(row);
    EXPECT_DOUBLE_EQ(largest_separated_sum(x, schema.min_separation, participations(schema, std::ssize(x))),
                     row.at("value"));
  }
  EXPECT_THROW(static_cast<void>(participations({0, std::nullopt}, 5)), UsageError);
  EXPECT_THROW(static_cast<void>(participations({1, 0}, 5)), UsageError);
}

}  // namespace
}  // namespace ripieno::accounting
