#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <vector>

namespace ripieno::testing_support {

/// A double as mantissa * 2^exponent, both integers.
struct Binary {
  explicit Binary(double value) : mantissa(static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53))) {
    exponent -= 53;
  }
  int exponent = 0;
  std::int64_t mantissa;
};

/// Whether the L2 norm of the elements is at most `bound` (finite, not negative), decided in integers: no rounding.
inline bool norm_is_within(const std::vector<at::Tensor>& leaves, double bound) {
  std::vector<Binary> values{Binary(bound)};
  for (const at::Tensor& leaf : leaves) {
    const at::Tensor wide = leaf.to(at::kDouble).contiguous();
    for (std::int64_t i = 0; i < wide.numel(); ++i)
      if (wide.data_ptr<double>()[i] != 0) values.emplace_back(wide.data_ptr<double>()[i]);
  }
  int lowest = values.front().exponent;
  for (const Binary& value : values) lowest = std::min(lowest, value.exponent);
  const auto square = [lowest](const Binary& value) {
    const boost::multiprecision::cpp_int mantissa = value.mantissa;
    return boost::multiprecision::cpp_int((mantissa * mantissa) << (2 * (value.exponent - lowest)));
  };
  boost::multiprecision::cpp_int sum = 0;
  for (std::size_t i = 1; i < values.size(); ++i) sum += square(values[i]);
  return sum <= square(values.front());
}

}  // namespace ripieno::testing_support
