#include <cmath>
#include <ripieno/accounting/base/vector_clones.hpp>
#include <ripieno/accounting/engine/frequency_sweep.hpp>

namespace ripieno::accounting {
namespace {

constexpr std::size_t k_rotations = 32;  // between two fresh evaluations of e^{iuL}
constexpr std::size_t k_lanes = 8;

// Adds up n complex numbers and multiplies each by its rotation; n is a multiple of k_lanes. Clones differ in the last
// bits.
RIPIENO_VECTOR_CLONES
std::complex<double> sum_and_rotate(std::size_t n, double* __restrict real, double* __restrict imaginary,
                                    const double* __restrict cosine, const double* __restrict sine) {
  double sum_real[k_lanes] = {}, sum_imaginary[k_lanes] = {};
  for (std::size_t j = 0; j < n; j += k_lanes) {
    for (std::size_t lane = 0; lane < k_lanes; ++lane) {
      const double x = real[j + lane];
      const double y = imaginary[j + lane];
      sum_real[lane] += x;
      sum_imaginary[lane] += y;
      real[j + lane] = x * cosine[j + lane] - y * sine[j + lane];
      imaginary[j + lane] = x * sine[j + lane] + y * cosine[j + lane];
    }
  }
  std::complex<double> sum;
  for (std::size_t lane = 0; lane < k_lanes; ++lane) sum += std::complex(sum_real[lane], sum_imaginary[lane]);
  return sum;
}

}  // namespace

FrequencySweep::FrequencySweep(const TiltedNodes& nodes, double spacing)
    : spacing_(spacing), loss_(nodes.loss), weight_(nodes.weight) {
  const std::size_t padded = (loss_.size() + k_lanes - 1) / k_lanes * k_lanes;
  loss_.resize(padded, 0);
  weight_.resize(padded, 0);
  real_ = weight_;
  imaginary_.assign(padded, 0);
  cosine_.reserve(padded);
  sine_.reserve(padded);
  for (const double loss : loss_) {
    cosine_.push_back(std::cos(spacing * loss));
    sine_.push_back(std::sin(spacing * loss));
  }
}

std::complex<double> FrequencySweep::next() {
  const std::complex<double> sum =
      sum_and_rotate(real_.size(), real_.data(), imaginary_.data(), cosine_.data(), sine_.data());
  if (++count_ % k_rotations == 0) start_afresh();
  return sum;
}

void FrequencySweep::start_afresh() {
  const double frequency = spacing_ * static_cast<double>(count_);
  for (std::size_t j = 0; j < real_.size(); ++j) {
    real_[j] = weight_[j] * std::cos(frequency * loss_[j]);
    imaginary_[j] = weight_[j] * std::sin(frequency * loss_[j]);
  }
}

}  // namespace ripieno::accounting
