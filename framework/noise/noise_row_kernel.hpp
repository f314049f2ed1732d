#pragma once

#include <cstddef>
#include <cstdint>

namespace ripieno::noise_detail {

// Steps of making a row of correlated noise over a block of elements that stays in the nearest cache. Arithmetic is in
// double, in a fixed order; a row is rounded once, to float32.

/// sums[i] = factor x[i]
void start_row(double* sums, const float* x, double factor, std::size_t size);
/// sums[i] += factor x[i]
void add_term(double* sums, const float* x, double factor, std::size_t size);
/// row[i] = sums[i]
void round_row(float* row, const double* sums, std::size_t size);
/// buffer[i] = decay buffer[i] + row[i]
void decay_buffer(float* buffer, const float* row, double decay, std::size_t size);

/// values[i] += row[i], or for integers row[i] / lattice_step, rounded to the nearest one, ties to even.
void add_row(float* values, const float* row, double lattice_step, std::size_t size);
void add_row(double* values, const float* row, double lattice_step, std::size_t size);
void add_row(std::int64_t* values, const float* row, double lattice_step, std::size_t size);

}  // namespace ripieno::noise_detail
