#pragma once

#include <cstdint>
#include <map>
#include <ripieno/framework/core/pytree.hpp>
#include <string>
#include <vector>

namespace ripieno::optim {

/// Everything about an optimizer that changes from step to step. Restored, it continues bit for bit.
struct OptimizerState {
  /// Updates made so far.
  std::int64_t step = 0;
  /// Named arrays: most have the structure, shapes and dtype of the parameters; adafactor's lack dimensions. "trace" of
  /// sgd; "mu" and "nu", the first and second moment; "slow" of ademamix; "sum", "step_squares" and
  /// "step_variances"; "row" and "column" of adafactor; "z" and "x" of schedule_free; "average".
  std::map<std::string, PyTree> slots = {};
  /// Under noise_bias_correction: the variance of the noise in the second moment, a number for each leaf.
  std::vector<double> phi = {};

  /// Equal numbers and arrays, value by value.
  friend bool operator==(const OptimizerState& a, const OptimizerState& b);
};

/// A state that shares no memory with `state`.
[[nodiscard]] OptimizerState copied(const OptimizerState& state);

}  // namespace ripieno::optim
