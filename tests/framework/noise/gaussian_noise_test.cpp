#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/noise/gaussian_noise.hpp>
#include <ripieno/framework/random/normal.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace ripieno {
namespace {

using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::ThrowsMessage;

// Noise goes on once, and only on a clipped sum.
static_assert(std::is_invocable_v<const GaussianNoise&, const Clipped<PyTree>&, const GaussianNoiseState&>);
static_assert(!std::is_invocable_v<const GaussianNoise&, const Noised<PyTree>&, const GaussianNoiseState&>);
static_assert(!std::is_invocable_v<const GaussianNoise&, const PyTree&, const GaussianNoiseState&>);

constexpr std::int64_t k_million = 1'000'000;

Clipped<PyTree> clipped(PyTree tree, double max_norm = 1) {
  return Clipped<PyTree>(std::move(tree), max_norm, Extent::global);
}

GaussianNoise noise_with(GaussianNoiseOptions options) {
  if (!options.key) options.key = key(7);
  return GaussianNoise(std::move(options));
}

GaussianNoise unit_noise() { return noise_with({.noise_multiplier = 1}); }

at::Tensor noised(const GaussianNoise& noise, const PyTree& tree, std::int64_t step = 0) {
  return flatten(noise(clipped(tree), {.step = step}).first.tree());
}

at::Tensor random_values(std::int64_t size) {
  at::Tensor values = at::empty({size}, at::kFloat);
  fill_normal(std::span(values.mutable_data_ptr<float>(), static_cast<std::size_t>(size)), key(99), 0, 0, 3.0);
  return values;
}

double stddev_of(const at::Tensor& values) { return std::sqrt(values.to(at::kDouble).square().mean().item<double>()); }

TEST(GaussianNoise, OfZeroGradientsHasTheStatedStandardDeviation) {
  const at::Tensor noise = noised(unit_noise(), at::zeros({k_million}));
  // Standard errors are 0.0007 and 0.001: the bounds are 14 and 5 of them away.
  EXPECT_NEAR(stddev_of(noise), 1.0, 0.01);
  EXPECT_NEAR(noise.to(at::kDouble).mean().item<double>(), 0.0, 0.005);
}

TEST(GaussianNoise, ScalesWithMultiplierBoundAndRoundingAllowance) {
  auto [noise, state] = gaussian_noise({.noise_multiplier = 1.5, .key = key(1), .rho = 0.25});
  const auto [noisy, next] = noise(clipped(at::zeros({k_million}), 0.5), state);
  EXPECT_EQ(noisy.noise_stddev(), 1.5 * 0.5 * 1.25);
  EXPECT_NEAR(stddev_of(noisy.tree()), 1.5 * 0.5 * 1.25, 0.01);
  EXPECT_EQ(noisy.max_norm(), 0.5);
  EXPECT_EQ(noisy.key_fingerprint(), fingerprint(key(1)));
  EXPECT_EQ(noisy.extent(), Extent::global);
}

TEST(GaussianNoise, Invariant_P11_IsAFunctionOfKeyStepAndParameterIndexAlone) {
  const at::Tensor values = random_values(100'003);
  const at::Tensor whole = noised(unit_noise(), values, 5);
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{1, 127, 129, 99'746}, std::vector<std::int64_t>{50'000, 0, 50'003}}) {
    PyTree::List leaves;
    for (const at::Tensor& piece : values.split_with_sizes(sizes)) leaves.emplace_back(piece);
    EXPECT_TRUE(at::equal(noised(unit_noise(), PyTree(leaves), 5), whole));
  }
  for (const int threads : {2, 3}) {
    const GaussianNoise threaded = noise_with({.noise_multiplier = 1, .threads = threads});
    EXPECT_TRUE(at::equal(noised(threaded, values, 5), whole)) << threads << " threads";
  }
}

TEST(GaussianNoise, OfAFloatLeafIsTheStreamAddedWithOneRounding) {
  const at::Tensor values = random_values(1000);
  std::vector<float> expected(1000);
  fill_normal(std::span(expected), key(7), 3, 0, 1.0);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += values.const_data_ptr<float>()[i];
  EXPECT_TRUE(at::equal(noised(unit_noise(), values, 3), at::tensor(expected)));
}

TEST(GaussianNoise, OfADoubleLeafIsInDoubleAndContinuesTheStream) {
  constexpr std::int64_t size = 70'000;  // more than one block
  const PyTree tree{{"a", at::zeros({10})}, {"b", at::ones({size}, at::kDouble)}};
  const PyTree noisy = unit_noise()(clipped(tree), {}).first.tree();
  std::vector<double> expected(size);
  fill_normal(std::span(expected), key(7), 0, 10, 1.0);
  for (double& value : expected) value += 1;
  EXPECT_TRUE(at::equal(noisy["b"], at::tensor(expected, at::kDouble)));
}

TEST(GaussianNoise, ReadsAStridedLeafInItsLogicalOrder) {
  const at::Tensor transposed = random_values(12).reshape({3, 4}).t();
  EXPECT_TRUE(at::equal(noised(unit_noise(), transposed), noised(unit_noise(), transposed.contiguous())));
}

TEST(GaussianNoise, Invariant_P4_EachStepAndKeyHasNoiseOfItsOwn) {
  const at::Tensor zeros = at::zeros({10'000});
  const at::Tensor first = noised(unit_noise(), zeros, 0);
  const at::Tensor second = noised(unit_noise(), zeros, 1);
  const at::Tensor other_key = noised(noise_with({.noise_multiplier = 1, .key = key(8)}), zeros, 0);
  // Two independent float deviates coincide with a probability below 1e-6.
  EXPECT_LE(first.eq(second).sum().item<std::int64_t>(), 2);
  EXPECT_LE(first.eq(other_key).sum().item<std::int64_t>(), 2);
  // The correlation of 10^4 independent pairs has a standard error of 0.01.
  EXPECT_LT(std::abs((first * second).mean().item<double>()), 0.06);
}

TEST(GaussianNoise, CountsItsStepsInTheState) {
  auto [noise, state] = gaussian_noise({.noise_multiplier = 1, .key = key(7)});
  EXPECT_EQ(state, (GaussianNoiseState{.step = 0, .key_fingerprint = ripieno::fingerprint(key(7))}));
  const auto [first, after_first] = noise(clipped(at::zeros({64})), state);
  EXPECT_EQ(after_first.step, 1);
  const auto [second, after_second] = noise(clipped(at::zeros({64})), after_first);
  EXPECT_EQ(after_second.step, 2);
  EXPECT_TRUE(at::equal(second.tree(), noised(noise, at::zeros({64}), 1)));
}

TEST(GaussianNoise, InPlaceGivesTheSameBits) {
  const at::Tensor values = random_values(5000);
  at::Tensor flat = values.clone();
  EXPECT_EQ(unit_noise().apply_(flat, 1.0, 4), 1.0);
  EXPECT_TRUE(at::equal(flat, noised(unit_noise(), values, 4)));
}

TEST(GaussianNoise, PreparedAheadOfTheSumIsTheSameBits) {
  const GaussianNoise noise = noise_with({.noise_multiplier = 1.25, .rho = 0.001});
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor in_place = random_values(5000).to(dtype), later = in_place.clone();
    noise.apply_(in_place, 2, 4);
    noise.prepare(5000, dtype, 2, 4).add_to_(later);
    EXPECT_TRUE(at::equal(later, in_place));
  }
  const at::Tensor units = at::arange(5000, at::kLong), later = units.clone();
  noise.apply_on_lattice_(units, 0x1p-22, 2, 4);
  noise.prepare_on_lattice(5000, 0x1p-22, 2, 4).add_to_(later);
  EXPECT_TRUE(at::equal(later, units));
}

TEST(GaussianNoise, PreparedAheadIsAddedOnlyWithLeaveOfTheGuardAndToWhatItIsFor) {
  bool recorded = false;
  const GaussianNoise guarded = noise_with({.noise_multiplier = 1, .guard = [&recorded](std::int64_t) {
                                              if (!recorded) throw PrivacyError("not recorded");
                                            }});
  at::Tensor flat = at::zeros({100});
  EXPECT_THROW(guarded.prepare(100, at::kFloat, 1, 3).add_to_(flat), PrivacyError);
  recorded = true;
  EXPECT_THROW(guarded.prepare(99, at::kFloat, 1, 3).add_to_(flat), UsageError);
  EXPECT_THROW(guarded.prepare(100, at::kDouble, 1, 3).add_to_(flat), UsageError);
  EXPECT_EQ(flat.count_nonzero().item<std::int64_t>(), 0);
  EXPECT_THROW((void)guarded.prepare(100, at::kHalf, 1, 3), UsageError);
  guarded.prepare(100, at::kFloat, 1, 3).add_to_(flat);
  EXPECT_GT(flat.count_nonzero().item<std::int64_t>(), 90);
}

TEST(GaussianNoise, LeavesItsInputAlone) {
  const at::Tensor values = random_values(100);
  const at::Tensor before = values.clone();
  static_cast<void>(noised(unit_noise(), values));
  EXPECT_TRUE(at::equal(values, before));
}

TEST(GaussianNoise, WithMultiplierZeroReturnsTheTreeItself) {
  const at::Tensor values = random_values(10);
  const auto [noisy, state] = noise_with({.noise_multiplier = 0})(clipped(values), {});
  EXPECT_EQ(noisy.noise_stddev(), 0.0);
  EXPECT_TRUE(noisy.tree().tensor().is_same(values));
  EXPECT_EQ(state.step, 1);
}

TEST(GaussianNoise, AsksTheGuardBeforeItAddsAnything) {
  std::vector<std::int64_t> asked;
  const GaussianNoise guarded = noise_with({.noise_multiplier = 1, .guard = [&asked](std::int64_t step) {
                                              asked.push_back(step);
                                              if (step == 3) throw PrivacyError("step 3 is not recorded");
                                            }});
  at::Tensor flat = at::zeros({100});
  EXPECT_THROW(guarded.apply_(flat, 1.0, 3), PrivacyError);
  EXPECT_EQ(flat.count_nonzero().item<std::int64_t>(), 0);
  EXPECT_THROW(static_cast<void>(guarded(clipped(flat), {.step = 3})), PrivacyError);
  guarded.apply_(flat, 1.0, 2);
  static_cast<void>(guarded(clipped(flat), {.step = 4}));
  EXPECT_EQ(asked, (std::vector<std::int64_t>{3, 3, 2, 4}));
}

TEST(GaussianNoise, RefusesOneRanksSumUnlessTheNoiseIsPerRank) {
  const Clipped<PyTree> local(at::zeros({8}), 1.0, Extent::local);
  const GaussianNoise after_sum = noise_with({.noise_multiplier = 1, .world_size = 4});
  EXPECT_THAT([&] { static_cast<void>(after_sum(local, {})); }, ThrowsMessage<UsageError>(HasSubstr("sqrt(4)")));
  const GaussianNoise per_rank = noise_with({.noise_multiplier = 1, .scope = NoiseScope::per_rank, .world_size = 4});
  EXPECT_EQ(per_rank(local, {}).first.extent(), Extent::local);
  EXPECT_THROW(static_cast<void>(per_rank(clipped(at::zeros({8})), {})), UsageError);
  EXPECT_NO_THROW(static_cast<void>(unit_noise()(local, {})));  // one rank's sum is the whole sum
}

TEST(GaussianNoise, RefusesOptionsThatMakeNoSense) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double z : {-1.0, infinity, nan}) EXPECT_THROW(noise_with({.noise_multiplier = z}), UsageError) << z;
  for (const double rho : {-0.1, infinity, nan}) {
    EXPECT_THROW(noise_with({.noise_multiplier = 1, .rho = rho}), UsageError) << rho;
  }
  EXPECT_THROW(noise_with({.noise_multiplier = 1, .threads = 0}), UsageError);
  EXPECT_THROW(noise_with({.noise_multiplier = 1, .world_size = 0}), UsageError);
  EXPECT_THAT([] { GaussianNoise({.noise_multiplier = 1}); }, ThrowsMessage<UsageError>(HasSubstr("key")));
  EXPECT_THAT([] { noise_with({}); }, ThrowsMessage<UsageError>(HasSubstr("noise_multiplier")));
}

TEST(GaussianNoise, RefusesBoundsAndStepsThatMakeNoSense) {
  at::Tensor flat = at::zeros({8});
  for (const double bound :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e38, 1e-31, 5e-324}) {
    EXPECT_THROW(noise_with({.noise_multiplier = 0.1}).apply_(flat, bound, 0), UsageError) << bound;
  }
  EXPECT_THROW(unit_noise().apply_(flat, 1.0, -1), UsageError);
  EXPECT_THROW(unit_noise().apply_(flat.reshape({2, 4}), 1.0, 0), UsageError);
  EXPECT_EQ(flat.count_nonzero().item<std::int64_t>(), 0);
}

TEST(GaussianNoise, RefusesLeavesThatWouldRoundTheNoise) {
  for (const at::ScalarType dtype : {at::kLong, at::kBFloat16, at::kHalf}) {
    const PyTree tree{{"a", at::zeros({4})}, {"b", at::zeros({4}, dtype)}};
    EXPECT_THAT([&] { static_cast<void>(unit_noise()(clipped(tree), {})); },
                ThrowsMessage<UsageError>(HasSubstr("leaf 'b'")));
  }
}

TEST(GaussianNoise, OnALatticeIsTheRoundedDeviateInWholeSteps) {
  const double step = 0x1p-22;
  const GaussianNoise noise = noise_with({.noise_multiplier = 1.25, .rho = 0.001});
  const at::Tensor units = at::arange(100'000, at::kLong) * 3;
  const at::Tensor noisy = units.clone();
  EXPECT_EQ(noise.apply_on_lattice_(noisy, step, 2, 5), noise.stddev(2));
  std::vector<double> exact(100'000);
  fill_normal(std::span(exact), key(7), 5, 0, noise.stddev(2) / step);
  const at::Tensor added = noisy - units;
  for (std::int64_t i = 0; i < added.numel(); i += 997) {
    EXPECT_EQ(added[i].item<std::int64_t>(), std::llrint(exact[static_cast<std::size_t>(i)]));
  }
  EXPECT_NEAR(stddev_of(added.to(at::kDouble) * step), noise.stddev(2), 0.02 * noise.stddev(2));
}

TEST(GaussianNoise, InPlaceMayBeAddedPartByPart) {
  const GaussianNoise noise = unit_noise();
  const at::Tensor whole = at::zeros({1000}), parts = at::zeros({1000});
  noise.apply_(whole, 1, 3);
  for (const std::int64_t begin : {0, 300, 700}) {
    noise.apply_(parts.narrow(0, begin, begin == 0 ? 300 : begin == 300 ? 400 : 300), 1, 3, begin);
  }
  EXPECT_TRUE(at::equal(whole, parts));
}

TEST(GaussianNoise, OnALatticeRefusesFloatingPointSums) {
  EXPECT_THROW(unit_noise().apply_on_lattice_(at::zeros({4}), 0x1p-22, 1, 0), UsageError);
}

struct PublishedRow {
  int world_size;
  double noise_multiplier, max_norm, published;
};

std::vector<PublishedRow> published_rows(const std::string& name) {
  std::vector<PublishedRow> rows;
  const Json file = read_json(std::string(RIPIENO_TEST_DATA) + "/noise_metadata.json");
  for (const Json& row : file.at("rows")) {
    if (row.at("row") != name) continue;
    rows.push_back({row.at("world_size"), row.at("noise_multiplier"), row.at("max_norm"), row.at("published_stddev")});
  }
  EXPECT_EQ(rows.size(), 2U) << name;
  return rows;
}

TEST(GaussianNoise, AfterTheSumPublishesWhatTheReferencePublishes) {
  for (const PublishedRow& row : published_rows("shared key, sum then noise once")) {
    const GaussianNoise noise = noise_with({.noise_multiplier = row.noise_multiplier, .world_size = row.world_size});
    EXPECT_EQ(noise(clipped(at::zeros({8}), row.max_norm), {}).first.noise_stddev(), row.published);
  }
}

// The sum over ranks of what each rank noised with a key of its own, and its mean.
TEST(GaussianNoise, PerRankAddsUpToWhatTheReferencePublishes) {
  for (const PublishedRow& row : published_rows("independent keys, noise then sum")) {
    at::Tensor total = at::zeros({20'000});
    double variance = 0;
    for (int rank = 0; rank < row.world_size; ++rank) {
      const GaussianNoise noise = noise_with({.noise_multiplier = row.noise_multiplier,
                                              .key = fold_in(key(7), rank),
                                              .scope = NoiseScope::per_rank,
                                              .world_size = row.world_size});
      const Clipped<PyTree> local(at::zeros({20'000}), row.max_norm, Extent::local);
      const Noised<PyTree> noisy = noise(local, {}).first;
      total += noisy.tree().tensor();
      variance += std::pow(*noisy.noise_stddev(), 2);
    }
    EXPECT_DOUBLE_EQ(std::sqrt(variance), row.published);
    EXPECT_NEAR(stddev_of(total), row.published, 0.03 * row.published);
  }
  for (const PublishedRow& row : published_rows("independent keys, noise then mean")) {
    const GaussianNoise noise = noise_with({.noise_multiplier = row.noise_multiplier});
    const Noised<PyTree> mean = noise(clipped(at::zeros({8}), row.max_norm), {}).first / row.world_size;
    EXPECT_DOUBLE_EQ(*mean.noise_stddev() * std::sqrt(row.world_size), row.published);
  }
}

}  // namespace
}  // namespace ripieno
