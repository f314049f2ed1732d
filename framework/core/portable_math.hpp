#pragma once

#include <cstdint>

namespace ripieno::portable {

// Functions whose results are the same bits on every processor and with every C library, which differ in the last bits
// of theirs: they are made of operations that round once, and of no fused ones. For numbers that every rank computes
// for itself. Relative errors are below 1e-15, for a power times 1 + |exponent * log(base)|.

[[nodiscard]] double exp(double x);
/// Natural logarithm; x > 0 and finite.
[[nodiscard]] double log(double x);
/// base^exponent; base > 0.
[[nodiscard]] double pow(double base, double exponent);
/// base^exponent by repeated squaring; exponent >= 0.
[[nodiscard]] double pow(double base, std::int64_t exponent);
/// cos(pi x), exact at multiples of one half; absolute error below 1e-15.
[[nodiscard]] double cos_pi(double x);

}  // namespace ripieno::portable
