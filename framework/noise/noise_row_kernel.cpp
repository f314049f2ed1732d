#include <bit>
#include <ripieno/accounting/base/vector_clones.hpp>
#include <ripieno/framework/noise/noise_row_kernel.hpp>

namespace ripieno::noise_detail {

RIPIENO_VECTOR_CLONES void start_row(double* sums, const float* x, double factor, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) sums[i] = factor * static_cast<double>(x[i]);
}

RIPIENO_VECTOR_CLONES void add_term(double* sums, const float* x, double factor, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) sums[i] += factor * static_cast<double>(x[i]);
}

RIPIENO_VECTOR_CLONES void round_row(float* row, const double* sums, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) row[i] = static_cast<float>(sums[i]);
}

RIPIENO_VECTOR_CLONES void decay_buffer(float* buffer, const float* row, double decay, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    buffer[i] = static_cast<float>(decay * static_cast<double>(buffer[i]) + static_cast<double>(row[i]));
  }
}

RIPIENO_VECTOR_CLONES void add_row(float* values, const float* row, double, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) values[i] += row[i];
}

RIPIENO_VECTOR_CLONES void add_row(double* values, const float* row, double, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) values[i] += static_cast<double>(row[i]);
}

// The lattice step is a power of two, so that the quotient is exact; below 2^51, adding 1.5 2^52 leaves the integer in
// the low bits.
RIPIENO_VECTOR_CLONES void add_row(std::int64_t* values, const float* row, double lattice_step, std::size_t size) {
  constexpr double k_shift = 0x1.8p52;
  const double per_step = 1 / lattice_step;
  for (std::size_t i = 0; i < size; ++i) {
    const double shifted = static_cast<double>(row[i]) * per_step + k_shift;
    values[i] += std::bit_cast<std::int64_t>(shifted) - std::bit_cast<std::int64_t>(k_shift);
  }
}

}  // namespace ripieno::noise_detail
