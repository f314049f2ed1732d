#include <algorithm>
#include <cmath>
#include <ripieno/accounting/engine/frequency_sweep.hpp>
#include <ripieno/accounting/engine/vector_kernels.hpp>

namespace ripieno::accounting {
namespace {

constexpr std::size_t k_rotations = 32;  // between two fresh evaluations of e^{iuL}

double largest_modulus(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

}  // namespace

FrequencySweep::FrequencySweep(const TiltedNodes& nodes, double spacing)
    : nodes_(nodes),
      spacing_(spacing),
      largest_loss_(largest_modulus(nodes.loss)),
      real_(nodes.weight),
      imaginary_(real_.size()),
      cosine_(real_.size()),
      sine_(real_.size()) {
  rotations(spacing, cosine_, sine_);
}

std::complex<double> FrequencySweep::next() {
  const auto [real, imaginary] = kernels::sum_and_rotate({real_, imaginary_}, cosine_, sine_);
  if (++count_ % k_rotations == 0) start_afresh();
  return {real, imaginary};
}

void FrequencySweep::start_afresh() {
  rotations(spacing_ * static_cast<double>(count_), real_, imaginary_);
  for (std::size_t j = 0; j < real_.size(); ++j) {
    real_[j] *= nodes_.weight[j];
    imaginary_[j] *= nodes_.weight[j];
  }
}

void FrequencySweep::rotations(double frequency, std::vector<double>& cosine, std::vector<double>& sine) const {
  if (frequency * largest_loss_ <= kernels::k_largest_angle) {
    kernels::cosine_sine(nodes_.loss, frequency, cosine, sine);
    return;
  }
  for (std::size_t j = 0; j < cosine.size(); ++j) {
    cosine[j] = std::cos(frequency * nodes_.loss[j]);
    sine[j] = std::sin(frequency * nodes_.loss[j]);
  }
}

}  // namespace ripieno::accounting
