#include <ripieno/framework/models/scattering_kernel.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <unsupported/Eigen/FFT>

namespace ripieno {
namespace {

using Complex = std::complex<float>;
using Shape = ScatteringShape;

constexpr std::size_t k_margin =
    Shape::k_stride;  // reflected pixels on each side: the low-pass filter reaches no further

// Wavelets of scale j: standard deviation and frequency at scale 0, in pixels and radians; wider across than along.
constexpr double k_deviation = 0.8;
constexpr double k_frequency = 3 * std::numbers::pi / 4;
constexpr double k_slant = 4.0 / Shape::k_angles;

struct Grid {
  std::size_t rows, columns;
  [[nodiscard]] std::size_t size() const { return rows * columns; }
  [[nodiscard]] Grid halved() const { return {.rows = rows / 2, .columns = columns / 2}; }
};

std::size_t padded_side(std::size_t side) {
  return (side + Shape::k_stride - 1) / Shape::k_stride * Shape::k_stride + 2 * k_margin;
}

// Index of pixel `position` of an image continued by reflection at its outermost pixels.
std::size_t reflected(std::int64_t position, std::size_t side) {
  const auto last = static_cast<std::int64_t>(side) - 1;
  if (position < 0) position = -position;
  if (position > last) position = 2 * last - position;
  return static_cast<std::size_t>(position);
}

// Transforms of two-dimensional arrays whose spectra are kept transposed, which saves half of the transpositions.
class Fourier {
 public:
  explicit Fourier(Grid grid) : grid_(grid), work_(grid.size()), line_(std::max(grid.rows, grid.columns)) {
    fft_.SetFlag(Eigen::FFT<float>::Unscaled);
  }

  // data: [rows, columns] -> spectrum [columns, rows], in place.
  void forward(std::vector<Complex>& data) {
    each_line(data, grid_.rows, grid_.columns, [this](Complex* to, Complex* from, auto n) { fft_.fwd(to, from, n); });
  }
  // spectrum [columns, rows] -> data [rows, columns] times its size, in place.
  void inverse(std::vector<Complex>& data) {
    each_line(data, grid_.columns, grid_.rows, [this](Complex* to, Complex* from, auto n) { fft_.inv(to, from, n); });
  }

 private:
  // Transforms the lines of [outer, inner], then those of its transpose, and leaves the transpose.
  template <class Transform>
  void each_line(std::vector<Complex>& data, std::size_t outer, std::size_t inner, Transform transform) {
    transform_and_transpose(data, work_, outer, inner, transform);
    for (std::size_t i = 0; i < inner; ++i) {
      transform(data.data() + i * outer, work_.data() + i * outer, static_cast<Eigen::Index>(outer));
    }
  }
  template <class Transform>
  void transform_and_transpose(std::vector<Complex>& from, std::vector<Complex>& to, std::size_t outer,
                               std::size_t inner, Transform transform) {
    for (std::size_t i = 0; i < outer; ++i) {
      transform(line_.data(), from.data() + i * inner, static_cast<Eigen::Index>(inner));
      for (std::size_t j = 0; j < inner; ++j) to[j * outer + i] = line_[j];
    }
  }

  Grid grid_;
  Eigen::FFT<float> fft_;
  std::vector<Complex> work_, line_;
};

// A Gaussian bump in frequency around `centre` times the wavelet's direction, repeated every 2 pi as sampling does.
class Bump {
 public:
  Bump(double deviation, double slant, double angle) : along_(deviation), across_(deviation / slant), angle_(angle) {}

  [[nodiscard]] double operator()(double row_frequency, double column_frequency, double centre) const {
    constexpr int k_repeats = 3;
    const double cosine = std::cos(angle_), sine = std::sin(angle_);
    double sum = 0;
    for (int i = -k_repeats; i <= k_repeats; ++i) {
      for (int j = -k_repeats; j <= k_repeats; ++j) {
        const double row = row_frequency + 2 * std::numbers::pi * i;
        const double column = column_frequency + 2 * std::numbers::pi * j;
        const double along = along_ * (row * cosine + column * sine - centre);
        const double across = across_ * (column * cosine - row * sine);
        sum += std::exp(-0.5 * (along * along + across * across));
      }
    }
    return sum;
  }

 private:
  double along_, across_, angle_;
};

double frequency(std::size_t index, std::size_t count) {
  return 2 * std::numbers::pi * static_cast<double>(index) / static_cast<double>(count);
}

// Spectrum [columns, rows] of the Morlet wavelet, real: a bump off the origin less as much of one at the origin as
// makes the mean vanish. The inverse transform's scale is in it.
std::vector<float> morlet(Grid grid, std::size_t scale, std::size_t angle) {
  const double dilation = std::exp2(static_cast<double>(scale));
  const double centre = k_frequency / dilation;
  const Bump bump(k_deviation * dilation, k_slant, std::numbers::pi * (static_cast<double>(angle) / Shape::k_angles));
  const double mean = bump(0, 0, centre) / bump(0, 0, 0);
  std::vector<float> spectrum(grid.size());
  for (std::size_t column = 0; column < grid.columns; ++column) {
    for (std::size_t row = 0; row < grid.rows; ++row) {
      const double u = frequency(row, grid.rows), v = frequency(column, grid.columns);
      const double value = bump(u, v, centre) - mean * bump(u, v, 0);
      spectrum[column * grid.rows + row] = static_cast<float>(value / static_cast<double>(grid.size()));
    }
  }
  return spectrum;
}

// One side of the low-pass filter: weights [pooled, padded side] that average a line around each feature's place. The
// features start one stride inside the margin.
std::vector<float> low_pass_rows(std::size_t pooled, std::size_t side, std::size_t stride) {
  const double deviation = k_deviation / 2 * static_cast<double>(stride);
  std::vector<float> weights(pooled * side);
  for (std::size_t i = 0; i < pooled; ++i) {
    std::vector<double> line(side);
    double sum = 0;
    for (std::size_t j = 0; j < side; ++j) {
      const double distance = static_cast<double>(j) - static_cast<double>((i + 1) * stride);
      for (const double turn : {-1.0, 0.0, 1.0}) {
        const double reach = (distance + turn * static_cast<double>(side)) / deviation;
        line[j] += std::exp(-0.5 * reach * reach);
      }
      sum += line[j];
    }
    for (std::size_t j = 0; j < side; ++j) weights[i * side + j] = static_cast<float>(line[j] / sum);
  }
  return weights;
}

// The separable Gaussian phi, sampled where the features are.
class LowPass {
 public:
  LowPass(Grid grid, const Shape& shape, std::size_t stride)
      : grid_(grid),
        pooled_{.rows = shape.pooled_height(), .columns = shape.pooled_width()},
        over_rows_(low_pass_rows(pooled_.rows, grid.rows, stride)),
        over_columns_(low_pass_rows(pooled_.columns, grid.columns, stride)),
        line_(grid.columns) {}

  void operator()(const std::vector<float>& values, std::span<float> averages) {
    for (std::size_t i = 0; i < pooled_.rows; ++i) {
      std::fill(line_.begin(), line_.end(), 0.0F);
      for (std::size_t row = 0; row < grid_.rows; ++row) {
        const float weight = over_rows_[i * grid_.rows + row];
        for (std::size_t column = 0; column < grid_.columns; ++column) {
          line_[column] += weight * values[row * grid_.columns + column];
        }
      }
      for (std::size_t j = 0; j < pooled_.columns; ++j) {
        float sum = 0;
        for (std::size_t column = 0; column < grid_.columns; ++column) {
          sum += over_columns_[j * grid_.columns + column] * line_[column];
        }
        averages[i * pooled_.columns + j] = sum;
      }
    }
  }

 private:
  Grid grid_, pooled_;
  std::vector<float> over_rows_, over_columns_;  // [pooled, padded]
  std::vector<float> line_;
};

void modulus(const std::vector<Complex>& values, std::vector<float>& moduli) {
  moduli.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    moduli[i] = std::sqrt(values[i].real() * values[i].real() + values[i].imag() * values[i].imag());
  }
}

void multiply(const std::vector<Complex>& spectrum, const std::vector<float>& filter, std::vector<Complex>& product) {
  product.resize(spectrum.size());
  for (std::size_t i = 0; i < spectrum.size(); ++i) product[i] = spectrum[i] * filter[i];
}

// The spectrum [columns, rows] of what remains when every second row and column is kept, times the size ratio.
void fold(const std::vector<Complex>& spectrum, Grid grid, std::vector<Complex>& folded) {
  const Grid half = grid.halved();
  folded.resize(half.size());
  for (std::size_t column = 0; column < half.columns; ++column) {
    const Complex* upper = spectrum.data() + column * grid.rows;
    const Complex* lower = upper + half.columns * grid.rows;
    for (std::size_t row = 0; row < half.rows; ++row) {
      folded[column * half.rows + row] = (upper[row] + upper[row + half.rows]) + (lower[row] + lower[row + half.rows]);
    }
  }
}

void normalise(std::span<float> group) {
  constexpr double k_epsilon = 1e-5;
  const auto count = static_cast<double>(group.size());
  double sum = 0, squares = 0;
  for (const float value : group) sum += double{value};
  const double mean = sum / count;
  for (const float value : group) squares += (double{value} - mean) * (double{value} - mean);
  const double scale = 1 / std::sqrt(squares / count + k_epsilon);
  for (float& value : group) value = static_cast<float>((double{value} - mean) * scale);
}

}  // namespace

class Scattering::Engine {
 public:
  explicit Engine(Shape shape)
      : shape_(shape),
        full_{.rows = padded_side(shape.height), .columns = padded_side(shape.width)},
        half_(full_.halved()),
        full_fourier_(full_),
        half_fourier_(half_),
        full_average_(full_, shape, Shape::k_stride),
        half_average_(half_, shape, Shape::k_stride / 2),
        padded_(full_.size()) {
    for (std::size_t angle = 0; angle < Shape::k_angles; ++angle) {
      fine_[angle] = morlet(full_, 0, angle);
      coarse_[angle] = morlet(full_, 1, angle);
    }
  }

  void transform(std::span<const float> image, std::span<float> coefficients) {
    pad(image);
    const auto channel = [&](std::size_t index) {
      return coefficients.subspan(index * shape_.channel_size(), shape_.channel_size());
    };
    full_average_(padded_, channel(0));
    image_spectrum_.assign(padded_.begin(), padded_.end());
    full_fourier_.forward(image_spectrum_);
    for (std::size_t a = 0; a < Shape::k_angles; ++a) {
      multiply(image_spectrum_, fine_[a], filtered_);
      full_fourier_.inverse(filtered_);
      modulus(filtered_, moduli_);
      full_average_(moduli_, channel(1 + a));
      filtered_.assign(moduli_.begin(), moduli_.end());
      full_fourier_.forward(filtered_);
      coarse(filtered_, channel, 1 + (2 + a) * Shape::k_angles);
    }
    coarse(image_spectrum_, channel, 1 + Shape::k_angles);
  }

 private:
  void pad(std::span<const float> image) {
    constexpr auto margin = static_cast<std::int64_t>(k_margin);
    for (std::size_t row = 0; row < full_.rows; ++row) {
      const float* from =
          image.data() + reflected(static_cast<std::int64_t>(row) - margin, shape_.height) * shape_.width;
      for (std::size_t column = 0; column < full_.columns; ++column) {
        padded_[row * full_.columns + column] =
            from[reflected(static_cast<std::int64_t>(column) - margin, shape_.width)];
      }
    }
  }

  // Filters of scale 1 leave no detail that half of the rows and columns would not show.
  template <class Channel>
  void coarse(const std::vector<Complex>& spectrum, const Channel& channel, std::size_t first) {
    for (std::size_t b = 0; b < Shape::k_angles; ++b) {
      multiply(spectrum, coarse_[b], product_);
      fold(product_, full_, folded_);
      half_fourier_.inverse(folded_);
      modulus(folded_, half_moduli_);
      half_average_(half_moduli_, channel(first + b));
    }
  }

  Shape shape_;
  Grid full_, half_;
  Fourier full_fourier_, half_fourier_;
  LowPass full_average_, half_average_;
  std::array<std::vector<float>, Shape::k_angles> fine_, coarse_;  // spectra of the wavelets of scale 0 and 1
  std::vector<float> padded_, moduli_, half_moduli_;
  std::vector<Complex> image_spectrum_, filtered_, product_, folded_;
};

Scattering::Scattering(ScatteringShape shape) : engine_(std::make_unique<Engine>(shape)) {}

Scattering::~Scattering() = default;

void Scattering::operator()(std::span<const float> image, std::span<float> coefficients) {
  engine_->transform(image, coefficients);
}

void ScatteringKernel::operator()(std::span<const float> image, std::span<float> features) {
  constexpr std::size_t k_group = 3;
  static_assert(Shape::k_channels % k_group == 0);
  scattering_(image, features);
  const std::size_t group_size = k_group * shape_.channel_size();
  for (std::size_t start = 0; start < features.size(); start += group_size) {
    normalise(features.subspan(start, group_size));
  }
}

}  // namespace ripieno
