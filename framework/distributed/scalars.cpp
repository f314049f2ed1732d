#include <array>
#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/distributed/agreement.hpp>
#include <ripieno/framework/distributed/scalars.hpp>
#include <ripieno/framework/distributed/tensors.hpp>
#include <string>

namespace ripieno::distributed {
namespace {

constexpr std::string_view k_disagreement = "the ranks' scalar reductions do not belong together";
constexpr std::string_view k_remedy = "reduce one kind of number by one operation on every rank";

template <class T>
T reduced(T value, Op op, const Communicator& communicator) {
  std::array<T, 1> values{value};
  communicator.allreduce(std::span<T>(values), detail::reduce_op(op));
  return op == Op::mean ? values[0] / static_cast<T>(communicator.size()) : values[0];
}

CommError differs(std::string_view name, const std::string& least, const std::string& greatest) {
  return CommError(std::string(name) + " differs between ranks", "it runs from " + least + " to " + greatest,
                   "find out which rank computed it from something else");
}

}  // namespace

namespace detail {

double reduce_real(double value, Op op, const ScalarOptions& options, const Communicator& communicator) {
  const OperationScope scope("reduce_scalar");
  const bool wide = options.compute_dtype == at::kDouble;
  agree(communicator, k_disagreement, k_remedy, [&] {
    if (!wide && options.compute_dtype != at::kFloat) {
      throw UsageError(std::string("scalars cannot be reduced in ") + at::toString(options.compute_dtype), {},
                       "use float32 or float64");
    }
    return std::string(name(op)) + (wide ? " in float64" : " in float32");
  });
  if (communicator.size() == 1) return value;
  return wide ? reduced(value, op, communicator)
              : static_cast<double>(reduced(static_cast<float>(value), op, communicator));
}

std::int64_t reduce_integer(std::int64_t value, Op op, const Communicator& communicator) {
  const OperationScope scope("reduce_scalar");
  agree(communicator, k_disagreement, k_remedy, [&] {
    if (op == Op::mean) {
      throw UsageError("the mean of integers is no integer", {}, "call mean_scalar, or reduce a double");
    }
    return std::string(name(op)) + " in int64";
  });
  return reduced(value, op, communicator);
}

std::int64_t reduce_integer(std::uint64_t value, Op op, const Communicator& communicator) {
  agree(communicator, k_disagreement, k_remedy, [&]() -> std::string {
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return "fits";
    throw UsageError(std::to_string(value) + " is too large to be reduced",
                     "integers are reduced in 64 bits with sign");
  });
  return reduce_integer(static_cast<std::int64_t>(value), op, communicator);
}

void assert_real_equal(double value, std::string_view name, const Communicator& communicator, Tolerance tolerance) {
  const OperationScope scope("assert_scalar_equal");
  std::array<double, 2> extremes{value, -value};
  communicator.allreduce_max(std::span<double>(extremes));
  const double greatest = extremes[0], least = -extremes[1];
  const double magnitude = std::max(std::abs(least), std::abs(greatest));
  const bool equal = greatest == least || greatest - least <= tolerance.absolute + tolerance.relative * magnitude;
  if (!equal) throw differs(name, format_double(least), format_double(greatest));
}

void assert_integer_equal(std::int64_t value, std::string_view name, const Communicator& communicator) {
  const OperationScope scope("assert_scalar_equal");
  std::array<std::int64_t, 2> extremes{value, ~value};
  communicator.allreduce_max(std::span<std::int64_t>(extremes));
  const std::int64_t greatest = extremes[0], least = ~extremes[1];
  if (greatest != least) throw differs(name, std::to_string(least), std::to_string(greatest));
}

}  // namespace detail

double mean_scalar(std::int64_t value, const Communicator& communicator) {
  return static_cast<double>(detail::reduce_integer(value, Op::sum, communicator)) / communicator.size();
}
double mean_scalar(std::int64_t value) { return mean_scalar(value, current_communicator()); }

}  // namespace ripieno::distributed
