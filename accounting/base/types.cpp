#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <string>

namespace ripieno::rules {
namespace {

double in_range(const char* name, double value, bool ok, const char* range) {
  if (std::isfinite(value) && ok) return value;
  throw UsageError(std::string(name) + " is " + format_double(value), std::string("must be ") + range);
}

}  // namespace

double SampleRate::check(double value) { return in_range("sample rate", value, value >= 0 && value <= 1, "in [0, 1]"); }
double NoiseMultiplier::check(double value) {
  return in_range("noise multiplier", value, value >= 0, "finite and not negative");
}
double ClippingNorm::check(double value) { return in_range("clipping norm", value, value > 0, "finite and positive"); }
double Delta::check(double value) { return in_range("delta", value, value >= 0 && value < 1, "in [0, 1)"); }
double Epsilon::check(double value) { return in_range("epsilon", value, value >= 0, "finite and not negative"); }

}  // namespace ripieno::rules
