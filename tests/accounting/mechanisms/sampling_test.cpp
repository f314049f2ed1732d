#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/engine/binomial.hpp>
#include <ripieno/accounting/engine/mechanisms.hpp>
#include <ripieno/accounting/mechanisms/random_allocation.hpp>
#include <ripieno/accounting/mechanisms/sampling.hpp>
#include <type_traits>

#include "../infinity.hpp"
#include "numeric.hpp"

namespace ripieno::accounting {
namespace {

template <class A, class... More>
concept CanBePoissonSampled = requires(A a) {
  poisson(a, 0.1);
};
template <class A>
concept CanBeRepeated = requires(A a) {
  a* std::int64_t{2};
};

static_assert(CanBePoissonSampled<GaussianMechanism> && !CanBePoissonSampled<Process>);
static_assert(!CanBePoissonSampled<WholeHorizon> && !CanBePoissonSampled<ReplaceOne>);
static_assert(CanBeRepeated<Process> && CanBeRepeated<ReplaceOne> && !CanBeRepeated<WholeHorizon>);

double mixture(double x, double sigma, const std::vector<DominatingPair::Shift>& shifts) {
  double sum = 0;
  for (const auto& [size, chance] : shifts) sum += chance * test::density(x, size, sigma);
  return sum;
}

test::Masses mixture_masses(double sigma, const std::vector<DominatingPair::Shift>& shifts, int points) {
  return test::masses_of([&](double x) { return mixture(x, sigma, shifts); },
                         [&](double x) { return test::density(x, 0, sigma); }, -9 * sigma,
                         shifts.back().size + 9 * sigma, points);
}

// Tolerances: what the steps of the brute force leave open below, and the grid of losses above.
void expect_bounds(const Interval& found, double brute, double epsilon) {
  EXPECT_GE(found.upper, brute * (1 - 1e-4) - 1e-12) << epsilon;
  EXPECT_LE(found.upper, brute * (1 + 2e-3) + 1e-9) << epsilon;
  EXPECT_LE(found.lower, brute * (1 + 1e-4) + 1e-12) << epsilon;
}

TEST(Pairs, OfSampledGaussiansAgreeWithTheExactEngine) {
  struct Case {
    double sigma, q;
    std::int64_t steps;
  };
  for (const auto& [sigma, q, steps] : {Case{1, 0.01, 1000}, Case{0.7, 0.1, 30}, Case{2, 1, 5}, Case{5, 0.3, 100}}) {
    const Process exact = poisson(gaussian(sigma), q) * steps;
    const Process pairs(sampled_gaussian_pair(sigma, q), steps);
    for (const double delta : {1e-3, 1e-12}) {
      const Interval a = exact.epsilon_at(delta), b = pairs.epsilon_at(delta);
      EXPECT_LE(b.lower, a.upper) << sigma;
      EXPECT_GE(b.upper, a.lower) << sigma;
      EXPECT_LE(b.upper - b.lower, 1e-4 * b.upper) << sigma << " " << delta;
    }
    for (const double epsilon : {0.0, 2.0}) {
      const Interval a = exact.delta_at(epsilon), b = pairs.delta_at(epsilon);
      EXPECT_LE(b.lower, a.upper) << sigma;
      EXPECT_GE(b.upper, a.lower) << sigma;
    }
  }
}

TEST(Group, OfASampledGaussianEqualsBruteForce) {
  for (const std::int64_t k : {2, 5}) {
    std::vector<DominatingPair::Shift> shifts;
    for (std::int64_t m = 0; m <= k; ++m) shifts.push_back({static_cast<double>(m), binomial_probability(k, 0.2, m)});
    const Process process = for_group(poisson(gaussian(1.5), 0.2), k);
    const test::Masses once = mixture_masses(1.5, shifts, 600);
    const test::Masses twice = test::product(once, once);
    for (const double epsilon : {0.1, 1.0, 2.5}) {
      expect_bounds(process.delta_at(epsilon), test::brute_delta(mixture_masses(1.5, shifts, 40000), epsilon), epsilon);
      expect_bounds((process * 2).delta_at(epsilon), test::brute_delta(twice, epsilon), epsilon);
    }
  }
}

TEST(Group, OfPlainGaussiansScalesTheNoise) {
  const std::pair<std::int64_t, double> known[] = {{1, 4.377178}, {2, 9.997256}, {4, 24.381611}, {8, 65.319220}};
  for (const auto& [k, epsilon] : known) EXPECT_NEAR(for_group(gaussian(1), k).epsilon_at(1e-5).upper, epsilon, 1e-6);
}

TEST(Group, CostsLessThanTheGenericBoundAndMoreThanOneExample) {
  const Process one = poisson(gaussian(1), 0.01) * 1000;
  const double epsilon = one.epsilon_at(1e-8).upper;
  const double three = for_group(one, 3).epsilon_at(1e-5).upper;
  EXPECT_GT(three, one.epsilon_at(1e-5).upper);
  EXPECT_LT(three, 3 * epsilon);
  EXPECT_THROW(static_cast<void>(for_group(k_out_of_t(1, 1, 4, Allocation::block), 2)), UsageError);
}

// One step of the mechanism itself, the others' gradients all the same, in one dimension.
double truncated_delta(double sigma, double q, int n, int cap, double others, double mine, double epsilon) {
  std::vector<DominatingPair::Shift> without, with;
  for (int k = 0; k < n; ++k) {
    const double chance = binomial_probability(n - 1, q, k);
    const int kept = std::min(k, cap);
    without.push_back({others * kept, chance});
    with.push_back({others * kept, chance * (1 - q)});
    const double in = k + 1 <= cap ? 1 : cap / static_cast<double>(k + 1);
    with.push_back({others * kept, chance * q * (1 - in)});
    with.push_back({others * std::min(k, cap - 1) + mine, chance * q * in});
  }
  return test::brute_delta(
      test::masses_of([&](double x) { return mixture(x, sigma, with); },
                      [&](double x) { return mixture(x, sigma, without); }, -cap - 10, cap + 10, 6000),
      epsilon);
}

TEST(TruncatedPoisson, BoundsTheMechanismItself) {
  for (const auto& [n, cap] : {std::pair{6, 1}, {6, 3}, {12, 4}}) {
    const Process process = truncated_poisson(gaussian(0.8), 0.3, n, cap);
    for (const double epsilon : {0.1, 0.7, 1.5}) {
      for (const double others : {-1.0, 0.0, 1.0}) {
        EXPECT_GE(process.delta_at(epsilon).upper, truncated_delta(0.8, 0.3, n, cap, others, 1, epsilon)) << n << cap;
      }
    }
  }
  // With batches of one the worst case is met almost: the other example is -1.
  EXPECT_LT(truncated_poisson(gaussian(0.8), 0.3, 2, 1).delta_at(1).upper,
            1.5 * truncated_delta(0.8, 0.3, 2, 1, -1, 1, 1));
}

TEST(TruncatedPoisson, IsNotMoreThanPoissonWithTheChanceOfOverflow) {
  const Process poissons = poisson(gaussian(0.8), 0.005) * 1000;
  const double cheap = epsilon_with_failure(poissons, overflow_probability(50000, 0.005, 350, 1000), 1e-5);
  const double better = (truncated_poisson(gaussian(0.8), 0.005, 50000, 350) * 1000).epsilon_at(1e-5).upper;
  EXPECT_LE(better, cheap);
  EXPECT_GE(better, poissons.epsilon_at(1e-5).lower);
  EXPECT_EQ(truncated_poisson(gaussian(1), 0.1, 50, 50), poisson(gaussian(1), 0.1));
  EXPECT_THROW(static_cast<void>(truncated_poisson(gaussian(1), 0.1, 50, 0)), UsageError);
  EXPECT_THROW(static_cast<void>(truncated_poisson(gaussian(0), 0.1, 50, 10)), UsageError);
}

test::Masses replacement_masses(double sigma, double q, int points) {
  const auto with = [=](double x) { return mixture(x, sigma, {{0, 1 - q}, {1, q}}); };
  const auto without = [=](double x) { return test::density(x, 0, sigma); };
  test::Masses masses = test::masses_of(with, without, 0.5, 1 + 9 * sigma, points);
  for (const auto& [p, r] : test::masses_of(without, with, 0.5, 1 + 9 * sigma, points)) masses.emplace_back(p, r);
  double first = 0, second = 0;
  for (const auto& [p, r] : masses) {
    first += p;
    second += r;
  }
  EXPECT_NEAR(first, second, 1e-6);
  masses.emplace_back(1 - first, 1 - first);
  return masses;
}

TEST(WithoutReplacement, EqualsBruteForceUnderComposition) {
  const ReplaceOne process = without_replacement(gaussian(1), 10, 2);
  const test::Masses once = replacement_masses(1, 0.2, 500);
  const test::Masses twice = test::product(once, once);
  for (const double epsilon : {0.2, 0.8, 1.6}) {
    expect_bounds(process.delta_at(epsilon), test::brute_delta(replacement_masses(1, 0.2, 100000), epsilon), epsilon);
    expect_bounds((process * 2).delta_at(epsilon), test::brute_delta(twice, epsilon), epsilon);
  }
}

// Every pair of neighbouring data sets in one dimension whose batches' sums differ as they can: 3 of 3 examples.
TEST(WithoutReplacement, BoundsTheMechanismItself) {
  const auto law = [](double a, double b, double c) {
    return [=](double x) {
      return (test::density(x, a + b, 2) + test::density(x, a + c, 2) + test::density(x, b + c, 2)) / 3;
    };
  };
  // Replacement moves a gradient by up to 2, the noise is 2: multiplier 1.
  const ReplaceOne process = without_replacement(gaussian(1), 3, 2);
  for (const double b : {-1.0, 0.0, 1.0}) {
    for (const double c : {-1.0, 1.0}) {
      const test::Masses masses = test::masses_of(law(1, b, c), law(-1, b, c), -22, 22, 10000);
      for (const double epsilon : {0.0, 0.3, 1.0}) {
        EXPECT_GE(process.delta_at(epsilon).upper, test::brute_delta(masses, epsilon) * (1 - 1e-5));
      }
    }
  }
}

// Orders and epsilon of dp-accounting 0.6.0, 50 steps; relative 1e-6.
TEST(WithoutReplacement, RenyiDivergenceIsThatOfOtherToolsAndLooser) {
  const std::pair<std::int64_t, double> known[] = {
      {2, .00347009700}, {4, .00698731773}, {8, .0141599883}, {16, .0290331778}, {32, .0606469924}};
  for (const auto& [order, value] : known) {
    EXPECT_NEAR(50 * without_replacement_rdp(2.5, 10000, 100, order), value, 1e-6 * value) << order;
  }
  EXPECT_LT((without_replacement(gaussian(2.5), 10000, 100) * 50).epsilon_at(1e-5).upper, .28849);
}

TEST(WithoutReplacement, HasTheRightEnds) {
  EXPECT_EQ(without_replacement(gaussian(1), 10, 0).epsilon_at(1e-5).upper, 0);
  EXPECT_EQ(without_replacement(gaussian(1), 10, 10).epsilon_at(1e-5), gaussian(1).epsilon_at(1e-5));
  EXPECT_THROW(static_cast<void>(without_replacement(gaussian(1), 10, 11)), UsageError);
}

TEST(EpsilonDelta, ComposesLikeRandomisedResponse) {
  const Process rest = poisson(gaussian(1.1), 0.01) * 1000;
  const double truth = 1 / (1 + std::exp(-1));
  const double expected = 1e-6 + (1 - 1e-6) * (truth * rest.delta_at(0).upper + (1 - truth) * rest.delta_at(2).upper);
  const double found = (epsilon_delta(1, 1e-6) | rest).delta_at(1).upper;
  EXPECT_GE(found, expected * (1 - 1e-12));
  EXPECT_LE(found, expected * (1 + 1e-4));
  EXPECT_EQ((epsilon_delta(1, 1e-6) | rest).epsilon_at(1e-7).upper, k_inf);
  EXPECT_NEAR((epsilon_delta(0.5, 0) * 2).epsilon_at(0).upper, 1, 1e-11);
  EXPECT_EQ((epsilon_delta(0.5, 0) * 2).delta_at(1.1).upper, 0);
  EXPECT_NEAR((epsilon_delta(1, 1e-6) * 3).delta_at(3).upper, 3e-6, 1e-11);
}

TEST(EpsilonDelta, NothingAndNoProtectionAreTheEnds) {
  EXPECT_EQ(epsilon_delta(0, 0), identity());
  EXPECT_EQ(identity().epsilon_at(1e-5).upper, 0);
  EXPECT_EQ((identity() | gaussian(1)).epsilon_at(1e-5), gaussian(1).epsilon_at(1e-5));
  EXPECT_EQ(non_private().epsilon_at(1e-5).upper, k_inf);
  EXPECT_EQ((non_private() | epsilon_delta(1, 0)).epsilon_at(1e-5).upper, k_inf);
  EXPECT_EQ(non_private().delta_at(1).upper, 1);
  EXPECT_NEAR(poisson(non_private(), 0.01).delta_at(1).upper, 0.01, 1e-12);
}

TEST(Algebra, OrderAndGroupingOfPairsDoNotMatter) {
  const Process a = epsilon_delta(0.1, 0), b = parallel_poisson(gaussian(2), 0.1, 2), c = gaussian(3);
  EXPECT_EQ((a | b | c) | a, c | (b | a * 2));
  EXPECT_EQ((a * 3).steps(), 3);
  EXPECT_EQ((a | b).segments(), 2);
  EXPECT_EQ((a * 0), Process());
  EXPECT_THROW(static_cast<void>(a * -1), UsageError);
}

}  // namespace
}  // namespace ripieno::accounting
