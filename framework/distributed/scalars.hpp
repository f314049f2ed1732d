#pragma once

#include <ATen/core/ScalarType.h>

#include <concepts>
#include <cstdint>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/distributed/context.hpp>
#include <ripieno/framework/distributed/op.hpp>
#include <string_view>

namespace ripieno::distributed {

struct ScalarOptions {
  /// float32 or float64.
  at::ScalarType compute_dtype = at::kFloat;
};

/// What a scalar may be compared with on another rank.
struct Tolerance {
  double relative = 1e-5;
  double absolute = 1e-8;
};

namespace detail {
double reduce_real(double value, Op op, const ScalarOptions& options, const Communicator& communicator);
std::int64_t reduce_integer(std::int64_t value, Op op, const Communicator& communicator);
std::int64_t reduce_integer(std::uint64_t value, Op op, const Communicator& communicator);
void assert_real_equal(double value, std::string_view name, const Communicator& communicator, Tolerance tolerance);
void assert_integer_equal(std::int64_t value, std::string_view name, const Communicator& communicator);
}  // namespace detail

// Scalars travel over MPI whatever moves tensors. bool does not compile: say which integer you mean. The operation is
// compared between ranks before anything is sent. Without a Runtime there is one rank.

/// Collective. The reduction of a real number, formed in float32 or in the compute_dtype asked for.
template <std::floating_point T>
[[nodiscard]] T reduce_scalar(T value, Op op, ScalarOptions options, const Communicator& communicator) {
  return static_cast<T>(detail::reduce_real(static_cast<double>(value), op, options, communicator));
}
template <std::floating_point T>
[[nodiscard]] T reduce_scalar(T value, Op op, const Communicator& communicator) {
  return reduce_scalar(value, op, ScalarOptions{}, communicator);
}
template <std::floating_point T>
[[nodiscard]] T reduce_scalar(T value, Op op = Op::mean, ScalarOptions options = {}) {
  return reduce_scalar(value, op, options, current_communicator());
}

/// Collective. The reduction of an integer, exact. CommError on every rank when it does not fit in 64 bits, UsageError
/// for a mean: see `mean_scalar`.
template <PublicScalar T>
requires std::integral<T>
[[nodiscard]] std::int64_t reduce_scalar(T value, Op op, const Communicator& communicator) {
  if constexpr (std::unsigned_integral<T>) {
    return detail::reduce_integer(static_cast<std::uint64_t>(value), op, communicator);
  } else {
    return detail::reduce_integer(static_cast<std::int64_t>(value), op, communicator);
  }
}
template <PublicScalar T>
requires std::integral<T>
[[nodiscard]] std::int64_t reduce_scalar(T value, Op op) { return reduce_scalar(value, op, current_communicator()); }

/// Collective. The mean of integers: the exact sum, divided once.
[[nodiscard]] double mean_scalar(std::int64_t value, const Communicator& communicator);
[[nodiscard]] double mean_scalar(std::int64_t value);
double mean_scalar(bool value) = delete;

/// Collective. CommError on every rank, with `name` and the extremes, when the ranks' values differ: integers at all,
/// real numbers by more than absolute + relative * magnitude. NaN equals nothing.
template <PublicScalar T>
void assert_scalar_equal(T value, std::string_view name, const Communicator& communicator, Tolerance tolerance = {}) {
  if constexpr (std::floating_point<T>) {
    detail::assert_real_equal(static_cast<double>(value), name, communicator, tolerance);
  } else {
    detail::assert_integer_equal(static_cast<std::int64_t>(value), name, communicator);
  }
}
template <PublicScalar T>
void assert_scalar_equal(T value, std::string_view name, Tolerance tolerance = {}) {
  assert_scalar_equal(value, name, current_communicator(), tolerance);
}

}  // namespace ripieno::distributed
