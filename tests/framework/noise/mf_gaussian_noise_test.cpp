#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/mechanisms/encoder.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/noise/step_noise.hpp>
#include <ripieno/framework/random/normal.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace ripieno {
namespace {

using accounting::Encoder;
using accounting::Strategy;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::ThrowsMessage;

static_assert(!std::is_invocable_v<const MFGaussianNoise&, const Noised<PyTree>&, MFNoiseState>);

struct Named {
  std::string name;
  Strategy strategy;
};

accounting::DenseStrategy dense(std::int64_t size) {
  accounting::DenseStrategy dense{.size = size, .entries = std::vector<double>(static_cast<std::size_t>(size * size))};
  for (std::int64_t row = 0; row < size; ++row) {
    for (std::int64_t column = 0; column <= row; ++column) {
      const auto distance = static_cast<double>(row - column);
      const double value =
          row == column ? 1 + 0.01 * static_cast<double>(row) : 0.4 * std::cos(distance) / (distance + 1);
      dense.entries[static_cast<std::size_t>(row * size + column)] = value;
    }
  }
  return dense;
}

std::vector<Named> strategies(std::int64_t steps) {
  return {{"identity", accounting::IdentityStrategy{}},
          {"bsr", accounting::BsrStrategy{8, 1, 0.5}},
          {"bisr", accounting::BisrStrategy{4, false, 0.9, {}}},
          {"normalised bisr", accounting::BisrStrategy{4, true, 0, {}}},
          {"own bisr", accounting::BisrStrategy{3, true, 0, {1, -0.4, 0.1}}},
          {"lambda-cgd", accounting::LambdaCgdStrategy{0.9, false}},
          {"normalised lambda-cgd", accounting::LambdaCgdStrategy{0.5, true}},
          {"band-mf", accounting::BandMfStrategy{{0.7, 0.5, 0.4, 0.3}}},
          {"one band", accounting::BandMfStrategy{{0.5}}},
          {"blt", accounting::BltStrategy{{0.17, 0.31}, {0.98, 0.73}}},
          {"dense", dense(steps)}};
}

MFGaussianNoiseOptions options(const Strategy& strategy, std::int64_t steps, PastRows past = PastRows::automatic) {
  MFGaussianNoiseOptions made;
  made.strategy = strategy;
  made.n_steps = steps;
  made.noise_multiplier = 1;
  made.key = key(7);
  made.past_rows = past;
  return made;
}

/// white[s][i] and from it, by substitution through the whole matrix, C^-1 white.
std::vector<std::vector<double>> dense_noise(const Encoder& encoder, std::size_t size, double base, const Key& key) {
  std::vector<std::vector<double>> rows;
  for (std::int64_t t = 0; t < encoder.steps(); ++t) {
    std::vector<float> white(size);
    fill_normal(std::span(white), key, static_cast<std::uint64_t>(t), 0, base);
    std::vector<double> row(white.begin(), white.end());
    for (std::int64_t s = 0; s < t; ++s) {
      for (std::size_t i = 0; i < size; ++i) row[i] -= encoder.entry(t, s) * rows[static_cast<std::size_t>(s)][i];
    }
    for (double& value : row) value /= encoder.entry(t, t);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Rows 0, 1, ... as the mechanism streams them, in one tensor each.
std::vector<at::Tensor> streamed(const MFGaussianNoise& noise, std::int64_t size, std::int64_t steps,
                                 at::ScalarType dtype = at::kFloat) {
  MFNoiseState state = noise.init();
  std::vector<at::Tensor> rows;
  for (std::int64_t t = 0; t < steps; ++t) {
    rows.push_back(at::zeros({size}, dtype));
    noise.apply_(rows.back(), 1.0, state);
    noise.finish_step_(state);
  }
  return rows;
}

TEST(MFGaussianNoise, StreamedNoiseIsTheInverseTimesWhiteNoiseForEveryStrategy) {
  constexpr std::int64_t steps = 64, size = 5000;  // more than two blocks
  for (const auto& [name, strategy] : strategies(steps)) {
    const Encoder encoder(strategy, steps);
    const auto expected = dense_noise(encoder, size, 1.0, key(7));
    for (const PastRows past : {PastRows::stored, PastRows::regenerated}) {
      const MFGaussianNoise noise(options(strategy, steps, past), size);
      const auto rows = streamed(noise, size, steps);
      double worst = 0;
      for (std::size_t t = 0; t < rows.size(); ++t) {
        const at::Tensor difference = rows[t].to(at::kDouble) - at::tensor(expected[t], at::kDouble);
        worst = std::max(worst, difference.abs().max().item<double>() / encoder.noise_row_norms()[t]);
      }
      // Every row is rounded to float32 once, and kept so: some units of 2^-24 of values up to 5.
      EXPECT_LT(worst, 3e-6) << name << (past == PastRows::stored ? ", stored" : ", regenerated");
    }
  }
}

TEST(MFGaussianNoise, TakesTheBuffersOfItsFormAndNoMore) {
  constexpr std::int64_t steps = 64;
  const std::vector<std::int64_t> stored = {0, 7, 3, 3, 2, 1, 1, 3, 0, 2, 63};
  const std::vector<Named> all = strategies(steps);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(MFGaussianNoise(options(all[i].strategy, steps, PastRows::stored), 10).num_buffers(), stored[i])
        << all[i].name;
    EXPECT_EQ(MFGaussianNoise(options(all[i].strategy, steps, PastRows::regenerated), 10).num_buffers(), 0);
  }
  // One deviate more a row is cheaper than a buffer; many are not.
  EXPECT_EQ(MFGaussianNoise(options(accounting::LambdaCgdStrategy{0.9}, steps), 10).num_buffers(), 0);
  EXPECT_EQ(MFGaussianNoise(options(accounting::BandMfStrategy{{0.7, 0.5, 0.4}}, steps), 10).num_buffers(), 2);
  MFGaussianNoiseOptions tight = options(accounting::BandMfStrategy{{0.7, 0.5, 0.4}}, steps);
  tight.memory_budget = 79;  // two buffers of ten float32 are 80 bytes
  EXPECT_EQ(MFGaussianNoise(tight, 10).num_buffers(), 0);
}

TEST(MFGaussianNoise, OfManyDrawsHasTheCovarianceOfTheStrategy) {
  constexpr std::int64_t steps = 8, draws = 100'000;
  for (const auto& [name, strategy] : strategies(steps)) {
    const Encoder encoder(strategy, steps);
    const at::Tensor rows =
        at::stack(streamed(MFGaussianNoise(options(strategy, steps), draws), draws, steps)).to(at::kDouble);
    const at::Tensor found = rows.matmul(rows.t()) / draws;
    std::vector<double> entries;
    for (std::int64_t t = 0; t < steps; ++t) {
      for (std::int64_t s = 0; s < steps; ++s) entries.push_back(s <= t ? encoder.entry(t, s) : 0);
    }
    const at::Tensor inverse = at::linalg_inv(at::tensor(entries, at::kDouble).view({steps, steps}));
    const at::Tensor expected = inverse.matmul(inverse.t());
    const at::Tensor scale = expected.diagonal().sqrt();
    // A correlation of so many independent draws has a standard error of at most 0.0045.
    EXPECT_LT(((found - expected) / at::outer(scale, scale)).abs().max().item<double>(), 0.027) << name;
    for (std::int64_t t = 0; t < steps; ++t) {
      EXPECT_NEAR(encoder.noise_row_norms()[static_cast<std::size_t>(t)], scale[t].item<double>(), 1e-12) << name;
    }
  }
}

TEST(MFGaussianNoise, Invariant_P11_AnySliceOnAnyNumberOfThreadsHasTheSameBits) {
  constexpr std::int64_t steps = 5, size = 200'003;
  for (const auto& [name, strategy] : strategies(steps)) {
    for (const PastRows past : {PastRows::stored, PastRows::regenerated}) {
      const auto whole = streamed(MFGaussianNoise(options(strategy, steps, past), size), size, steps);
      MFGaussianNoiseOptions threaded = options(strategy, steps, past);
      threaded.threads = 3;
      const auto by_threads = streamed(MFGaussianNoise(threaded, size), size, steps);
      // One of two ranks that share the parameters, and which gets its part in two buckets.
      const std::int64_t begin = 70'001;
      const MFGaussianNoise part(options(strategy, steps, past), size - begin);
      MFNoiseState state = part.init(begin);
      for (std::int64_t t = 0; t < steps; ++t) {
        const auto row = static_cast<std::size_t>(t);
        ASSERT_TRUE(at::equal(by_threads[row], whole[row])) << name;
        at::Tensor slice = at::zeros({size - begin});
        part.apply_(slice.narrow(0, 0, 1000), 1.0, state, begin);
        part.apply_(slice.narrow(0, 1000, size - begin - 1000), 1.0, state, begin + 1000);
        part.finish_step_(state);
        ASSERT_TRUE(at::equal(slice, whole[row].narrow(0, begin, size - begin))) << name;
      }
    }
  }
}

TEST(MFGaussianNoise, PublishesTheDeviationOfEachRow) {
  const PyTree params{{"w", at::zeros({40'000})}, {"b", at::zeros({10'000})}};
  MFGaussianNoiseOptions made = options(accounting::BandMfStrategy{{0.8, 0.6}}, 4);
  made.noise_multiplier = 2;
  made.rho = 0.25;
  auto [noise, state] = mf_gaussian_noise(params, made);
  const std::vector<double> norms = Encoder(made.strategy, 4).noise_row_norms();
  for (std::size_t t = 0; t < 4; ++t) {
    auto [noisy, next] = noise(Clipped<PyTree>(params, 0.5, Extent::global), state);
    EXPECT_DOUBLE_EQ(*noisy.noise_stddev(), 2 * 0.5 * 1.25 * norms[t]);
    const double found = flatten(noisy.tree()).to(at::kDouble).square().mean().sqrt().item<double>();
    EXPECT_NEAR(found / *noisy.noise_stddev(), 1, 0.02);  // 6 standard errors
    EXPECT_EQ(noisy.key_fingerprint(), fingerprint(key(7)));
    state = next;
  }
  EXPECT_THAT([&] { (void)noise(Clipped<PyTree>(params, 0.5, Extent::global), state); },
              ThrowsMessage<UsageError>(HasSubstr("no row of noise for step 4")));
}

TEST(MFGaussianNoise, TheFunctionalFormLeavesItsArgumentsAsTheyAre) {
  const PyTree params{{"w", at::ones({300})}};
  auto [noise, state] = mf_gaussian_noise(params, options(accounting::BltStrategy{{0.5}, {0.9}}, 4));
  const MFNoiseState before = state;
  const at::Tensor buffers = state.buffers.clone();
  const auto [first, next] = noise(Clipped<PyTree>(params, 1, Extent::global), state);
  const auto [again, next_again] = noise(Clipped<PyTree>(params, 1, Extent::global), state);
  EXPECT_TRUE(at::equal(state.buffers, buffers));
  EXPECT_TRUE(at::equal(params["w"], at::ones({300})));
  EXPECT_TRUE(at::equal(first.tree()["w"], again.tree()["w"]));
  EXPECT_TRUE(next == next_again);
  EXPECT_FALSE(next == before);
}

TEST(MFGaussianNoise, SharesNoiseBetweenGroupsThatWereClippedApart) {
  const PyTree params{{"a", at::zeros({50'000})}, {"b", at::zeros({50'000})}};
  const PerGroup norms = per_layer(params, 1.0);
  auto [noise, state] = mf_gaussian_noise(params, options(accounting::LambdaCgdStrategy{0.5, false}, 3));
  const auto [noisy, next] = noise(Clipped<PyTree>(params, norms, Extent::global), state);
  // Two bounds of 1 / sqrt(2), each with noise sqrt(C (C + C)) = 1.
  EXPECT_NEAR(at::Tensor(noisy.tree()["a"]).to(at::kDouble).square().mean().sqrt().item<double>(), 1.0, 0.02);
  EXPECT_NEAR(noisy.group_stddevs()->at("a"), 1.0, 1e-9);
}

TEST(MFGaussianNoise, DoubleSumsAndLatticeSumsGetTheSameRow) {
  constexpr std::int64_t size = 3000;
  const MFGaussianNoise noise(options(accounting::BltStrategy{{0.5}, {0.9}}, 4), size);
  MFNoiseState state = noise.init(), lattice_state = noise.init();
  const auto rows = streamed(noise, size, 4);
  const auto doubles = streamed(noise, size, 4, at::kDouble);
  for (std::size_t t = 0; t < 4; ++t) {
    EXPECT_TRUE(at::equal(rows[t].to(at::kDouble), doubles[t]));
    at::Tensor units = at::full({size}, 5, at::kLong);
    noise.apply_on_lattice_(units, 0x1p-10, 1.0, lattice_state);
    noise.finish_step_(lattice_state);
    EXPECT_TRUE(at::equal(units, (rows[t].to(at::kDouble) * 0x1p10).round().to(at::kLong) + 5));
  }
}

TEST(MFGaussianNoise, Invariant_P4_GoesOnUnderANewKeyWithTheRowsThatAreThere) {
  constexpr std::int64_t steps = 12, size = 2000, resumed_at = 5;
  for (const auto& [name, strategy] : strategies(steps)) {
    for (const PastRows past : {PastRows::stored, PastRows::regenerated}) {
      const Encoder encoder(strategy, steps);
      const MFGaussianNoise first(options(strategy, steps, past), size);
      MFNoiseState state = first.init();
      at::Tensor row = at::zeros({size});
      for (std::int64_t t = 0; t < resumed_at; ++t) first.apply_(row, 1.0, state), first.finish_step_(state);
      MFGaussianNoiseOptions fresh = options(strategy, steps, past);
      fresh.key = key(8);
      const MFGaussianNoise second(fresh, size);
      state = state.under_new_key(key(7), second.key_fingerprint());
      const auto old_rows = dense_noise(encoder, size, 1.0, key(7));
      const auto new_white = dense_noise(Encoder(accounting::IdentityStrategy{}, steps), size, 1.0, key(8));
      std::vector<std::vector<double>> expected(old_rows.begin(), old_rows.begin() + resumed_at);
      for (std::int64_t t = resumed_at; t < steps; ++t) {
        std::vector<double> x = new_white[static_cast<std::size_t>(t)];
        for (std::int64_t s = 0; s < t; ++s) {
          for (std::size_t i = 0; i < x.size(); ++i)
            x[i] -= encoder.entry(t, s) * expected[static_cast<std::size_t>(s)][i];
        }
        for (double& value : x) value /= encoder.entry(t, t);
        row.zero_();
        second.apply_(row, 1.0, state);
        second.finish_step_(state);
        EXPECT_LT((row.to(at::kDouble) - at::tensor(x, at::kDouble)).abs().max().item<double>(), 2e-5)
            << name << " " << t;
        expected.push_back(std::move(x));
      }
    }
  }
}

TEST(MFGaussianNoise, RefusesWhatWouldBreakItsRows) {
  const PyTree params{{"w", at::zeros({8})}};
  auto [noise, state] = mf_gaussian_noise(params, options(accounting::BltStrategy{{0.5}, {0.9}}, 4));
  const auto [noisy, next] = noise(Clipped<PyTree>(params, 1, Extent::global), state);
  EXPECT_THAT([&] { (void)noise(Clipped<PyTree>(params, 2, Extent::global), next); },
              ThrowsMessage<UsageError>(HasSubstr("the clipping norm changed")));
  MFNoiseState other = state, wrong = state;
  other.buffers = at::zeros({3, 8});
  EXPECT_THAT([&] { (void)noise(Clipped<PyTree>(params, 1, Extent::global), other); },
              ThrowsMessage<UsageError>(HasSubstr("another strategy")));
  EXPECT_THAT([&] { noise.apply_(at::zeros({9}), 1, wrong); },
              ThrowsMessage<UsageError>(HasSubstr("the state is of 8")));
  EXPECT_THROW(MFGaussianNoise(options(accounting::LambdaCgdStrategy{1.5}, 4), 8), UsageError);
  EXPECT_THROW(MFGaussianNoise(options(accounting::BltStrategy{{0.5}, {0.9}}, 0), 8), UsageError);
  MFGaussianNoiseOptions keyless = options(accounting::IdentityStrategy{}, 4);
  keyless.key.reset();
  EXPECT_THROW(MFGaussianNoise(keyless, 8), UsageError);
}

TEST(StepNoise, MakesEachCorrelatedRowOnce) {
  const MFGaussianNoise noise(options(accounting::BltStrategy{{0.5}, {0.9}}, 4), 16);
  MFNoiseState state = noise.init();
  const StepNoise step_noise(noise, state);
  at::Tensor sum = at::zeros({16});
  step_noise.apply_(sum, 1, 0);
  step_noise.finish_step(0);
  EXPECT_EQ(state.step, 1);
  EXPECT_TRUE(at::equal(sum, streamed(noise, 16, 1)[0]));
  EXPECT_THAT([&] { step_noise.apply_(sum, 1, 0); },
              ThrowsMessage<UsageError>(HasSubstr("its next row is that of step 1")));
}

}  // namespace
}  // namespace ripieno
