#include <ripieno/framework/optim/learning_rate.hpp>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <string>

namespace ripieno::optim {

double LearningRate::at(std::int64_t step) const {
  const double rate = schedule_(step);
  if (!(rate >= 0 && std::isfinite(rate))) {
    throw UsageError("the learning rate is " + format_double(rate) + " at step " + std::to_string(step),
                     "it must be finite and not negative");
  }
  return rate;
}

}  // namespace ripieno::optim
