#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/mechanisms/matrix_factorisation.hpp>
#include <type_traits>

namespace ripieno::accounting {
namespace {

double epsilon(const Process& process) { return process.epsilon_at(1e-5).upper; }

// Tolerance: relative 1e-3, the reference's grid.
TEST(MatrixFactorisation, IsOneGaussianOfTheSensitivity) {
  const Encoder bsr(BsrStrategy{4, 0.99, 0.9}, 64);
  EXPECT_NEAR(epsilon(mf_gaussian(2, bsr, {8, 8})), 13.956324390645028, 1e-3 * 14);
  const Encoder cgd(LambdaCgdStrategy{0.5, true}, 64);
  EXPECT_NEAR(epsilon(mf_gaussian(4, cgd, {16, 4})), 1.9931168801139407, 1e-3 * 2);
  // The reference bounds normalised BISR by 2.4767 and charges identity noise 0.9263, as if it were one release.
  EXPECT_LE(epsilon(mf_gaussian(4, Encoder(BisrStrategy{4, true, 0, {}}, 64), {16, 4})), 2.4766699114391986);
  EXPECT_NEAR(epsilon(mf_gaussian(4, Encoder(IdentityStrategy{}, 64), {16, 4})), 1.993, 5e-4);
}

TEST(MatrixFactorisation, CyclicPoissonSamplingAmplifiesBands) {
  const Encoder ten(BandMfStrategy{std::vector<double>(10, 1 / std::sqrt(10.0))}, 1000);
  EXPECT_NEAR(epsilon(mf_gaussian_cyclic_poisson(1, ten, 10, 0.1)), 7.0466026170, 1e-8);
  const Encoder four(BandMfStrategy{{0.5, 0.5, 0.5, 0.5}}, 64);
  EXPECT_NEAR(epsilon(mf_gaussian_cyclic_poisson(1, four, 4, 0.05)), 1.8655443348859289, 1.9e-3);
  const Encoder plain(IdentityStrategy{}, 1000);
  EXPECT_NEAR(epsilon(mf_gaussian_cyclic_poisson(1, plain, 1, 0.01)), 1.828321647525279, 1.9e-3);
}

TEST(MatrixFactorisation, CyclicPoissonRefusesWhatTheTheoremDoesNotCover) {
  const Encoder four(BandMfStrategy{{0.5, 0.5, 0.5, 0.5}}, 64);
  EXPECT_THROW(static_cast<void>(mf_gaussian_cyclic_poisson(1, four, 3, 0.05)), UsageError);
  EXPECT_NO_THROW(static_cast<void>(mf_gaussian_cyclic_poisson(1, four, 5, 0.05)));
  EXPECT_THROW(static_cast<void>(mf_gaussian_cyclic_poisson(1, four.resumed(8, 4), 4, 0.05)), PrivacyError);
  static_assert(!std::is_convertible_v<Process, GaussianMechanism>, "a factorisation cannot be subsampled again");
}

// The reference charges the first stream alone: 1.36.
TEST(MatrixFactorisation, PairsAreChargedForBothStreams) {
  const PairedStreams streams = share_noise(
      8, {.first = Encoder(LambdaCgdStrategy{0, true}, 64), .second = Encoder(LambdaCgdStrategy{0.95, false}, 64)});
  EXPECT_NEAR(epsilon(paired_mf_gaussian(streams, {8, 8})), 2.30, 5e-3);
  EXPECT_NEAR(epsilon(mf_gaussian(8, streams.first, {8, 8})), 1.36, 5e-3);
  // With one participation the noise was shared out so that both cost what was asked for.
  EXPECT_NEAR(epsilon(paired_mf_gaussian(streams, {64, 1})), epsilon(gaussian(8)), 1e-12);
}

TEST(MatrixFactorisation, RefusesStreamsWithoutNoise) {
  const PairedStreams silent{.first = Encoder(IdentityStrategy{}, 4), .second = Encoder(IdentityStrategy{}, 4)};
  EXPECT_THROW(static_cast<void>(paired_mf_gaussian(silent, {})), UsageError);
  EXPECT_THROW(static_cast<void>(share_noise(0, silent)), UsageError);
}

}  // namespace
}  // namespace ripieno::accounting
