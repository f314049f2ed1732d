#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace ripieno::accounting {

// Strategies of matrix-factorisation mechanisms (DP-FTRL). A strategy is a lower-triangular encoder C: step t publishes
// row t of C G + Z, G the gradients of all steps and Z white noise, which is the same as publishing the gradient of
// step t with row t of the correlated noise C^-1 Z. What is written here is enough to account for C and to make that
// noise.

/// C = I: independent noise, as in DP-SGD.
struct IdentityStrategy {};

/// Banded square root of the workload of SGD with weight decay `alpha` and momentum `beta` (Kalinin & Lampert 2024):
/// c_j = sum_i alpha^{j-i} r_{j-i} r_i beta^i, j < bandwidth, with r_k = r_{k-1} (k - 1/2) / k.
struct BsrStrategy {
  std::int64_t bandwidth = 1;
  double alpha = 1;  ///< in (beta, 1]
  double beta = 0;   ///< in [0, 1)
};

/// Banded *inverse* square root: C^-1 is banded. a_k = sum_j r_j momentum^j r_{k-j}, k < bandwidth, with
/// r_j = r_{j-1} (j - 3/2) / j, and C is the Toeplitz inverse.
struct BisrStrategy {
  std::int64_t bandwidth = 2;
  bool is_normalised = true;    ///< the columns of C are scaled to norm 1
  double momentum = 0;          ///< in [0, 1)
  std::vector<double> inverse;  ///< own first column of C^-1, `bandwidth` numbers, the first of them 1; else the above
};

/// c_i = lambda^i: the noise of a step takes back a part of the last one's.
struct LambdaCgdStrategy {
  double lambda = 0;          ///< in [0, 1)
  bool is_normalised = true;  ///< the columns of C are scaled to norm 1
};

/// A banded Toeplitz C with these coefficients, the first of them positive, usually optimised for a workload.
struct BandMfStrategy {
  std::vector<double> coefficients;
};

/// Buffered linear Toeplitz (Dvijotham et al. 2024; McMahan et al. 2024): c_0 = 1, c_{i+1} = sum_b weight_b decay_b^i.
struct BltStrategy {
  std::vector<double> weights;  ///< >= 0
  std::vector<double> decays;   ///< in [0, 1)
};

/// Any lower-triangular C with a positive diagonal.
struct DenseStrategy {
  std::int64_t size = 0;
  std::vector<double> entries;  ///< size x size, row by row
};

using Strategy = std::variant<IdentityStrategy, BsrStrategy, BisrStrategy, LambdaCgdStrategy, BandMfStrategy,
                              BltStrategy, DenseStrategy>;

/// True where C is a Toeplitz matrix whose columns are then scaled to norm 1.
[[nodiscard]] bool normalises_columns(const Strategy& strategy);

/// First column of the Toeplitz matrix of `steps` rows, before its columns are scaled. UsageError where a parameter is
/// out of its range, and for a dense strategy.
[[nodiscard]] std::vector<double> coefficients(const Strategy& strategy, std::int64_t steps);

/// First column of the inverse of that matrix: noise of step t is sum_i a_i Z_{t-i}, times the norm of column t of the
/// Toeplitz matrix where columns are scaled.
[[nodiscard]] std::vector<double> inverse_coefficients(const Strategy& strategy, std::int64_t steps);

/// First column of the inverse of the lower-triangular Toeplitz matrix with first column `column`; column[0] != 0.
[[nodiscard]] std::vector<double> toeplitz_inverse(const std::vector<double>& column);

}  // namespace ripieno::accounting
