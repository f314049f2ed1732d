#pragma once

#include <cstdint>
#include <ripieno/accounting/mechanisms/sensitivity.hpp>
#include <ripieno/accounting/mechanisms/strategy.hpp>
#include <span>
#include <vector>

namespace ripieno::accounting {

/// What training makes of the noisy gradients: row t of it is sum_s w_{t-s} times what step s released, weighed by the
/// learning rate of step t.
struct Workload {
  /// w_0 + w_1 x + w_2 x^2 + ... is the product of 1 / (1 - r x) over these: {1} for the sums that plain SGD takes,
  /// {1, m} for SGD with momentum m, {m} for sums that forget, {} for the gradients themselves. Each in [0, 1].
  std::vector<double> ratios = {1.0};
  /// Of each step; empty where it is constant.
  std::vector<double> learning_rates = {};
};

/// Squared error of each row of the workload for white noise of variance 1, correlated by the Toeplitz matrix with
/// first column `inverse`: lr_t^2 sum_{s <= t} (w * inverse)_s^2.
[[nodiscard]] std::vector<double> squared_errors(std::span<const double> inverse, const Workload& workload);

/// The banded Toeplitz strategy with the least mean squared error under one participation, its columns of norm 1
/// (Choquette-Choo et al. 2023b). UsageError unless 1 <= bands <= steps, or where the workload makes no sense.
[[nodiscard]] BandMfStrategy optimal_band_mf(std::int64_t bands, std::int64_t steps, const Workload& workload = {});

/// The buffered linear Toeplitz strategy with the least product of largest squared error and squared sensitivity under
/// the schema (McMahan et al. 2024, section 4), with as many buffers as still gain 1 % each, at most `max_buffers`
/// <= 15. UsageError likewise.
[[nodiscard]] BltStrategy optimal_blt(std::int64_t max_buffers, std::int64_t steps, const ParticipationSchema& schema,
                                      const Workload& workload = {});

}  // namespace ripieno::accounting
