#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/optim/learning_rate.hpp>
#include <ripieno/framework/optim/state.hpp>
#include <string>
#include <vector>

namespace ripieno::optim {

/// One leaf of a step, in contiguous tensors of one dtype, float32 or float64, on the CPU or, where
/// the algorithm couples no elements, on one CUDA device.
struct Leaf {
  at::Tensor gradient;        ///< before it is divided
  at::Tensor squares;         ///< the second moment's own stream, before it is divided; undefined unless a pair is fed
  at::Tensor params;          ///< undefined where none were given
  at::Tensor updates;         ///< receives the update; undefined where parameters are updated in place
  bool in_place = false;      ///< the update is added to `params`
  double noise_variance = 0;  ///< of the noise in one element of the divided gradient
};

/// One step over all leaves.
struct Step {
  std::vector<Leaf> leaves;
  double divisor = 1;
};

/// How an optimizer works: what FunctionalOptimizer holds.
class Algorithm {
 public:
  virtual ~Algorithm() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual OptimizerState init(const PyTree& params) const = 0;
  /// Makes the step and changes `state`, its count included, in place. The arrays of `state` fit the leaves.
  virtual void advance(const Step& step, OptimizerState& state) const = 0;

  /// What the parameters are needed for ("weight decay"), or "" where an update does without them.
  [[nodiscard]] virtual std::string use_of_params() const { return {}; }
  /// Why an element's update depends on other elements, or "" where it does not.
  [[nodiscard]] virtual std::string coupling() const { return {}; }
  [[nodiscard]] virtual bool takes_squares() const { return false; }
  /// Whether the step needs to know the noise in the gradient.
  [[nodiscard]] virtual bool corrects_noise() const { return false; }
  /// Whether the parameters to evaluate and publish are an average.
  [[nodiscard]] virtual bool averages() const { return false; }
  /// The parameters to evaluate and publish.
  [[nodiscard]] virtual PyTree published(const PyTree& params, const OptimizerState& /*state*/) const { return params; }

 protected:
  Algorithm() = default;
  Algorithm(const Algorithm&) = default;
  Algorithm(Algorithm&&) = default;
  Algorithm& operator=(const Algorithm&) = default;
  Algorithm& operator=(Algorithm&&) = default;
};

/// UsageError "NAME got OPTION = VALUE (it must be RANGE)" unless the value is finite and in range.
void check_option(const std::string& optimizer, const char* option, double value, bool in_range, const char* range);
void check_rate(const std::string& optimizer, const LearningRate& rate);

/// An array like each parameter, of this value.
[[nodiscard]] PyTree arrays_like(const PyTree& params, double value = 0);

}  // namespace ripieno::optim
