#pragma once

#include <memory>
#include <ripieno/framework/optim/optimizer.hpp>
#include <ripieno/framework/optim/state.hpp>
#include <string>

namespace ripieno::optim {

class Algorithm;
struct Step;

/// What optim::sgd, optim::adam and the others return: an optimizer as a pure function of gradient, state and
/// parameters. Arithmetic is in the dtype of the state's arrays, or of the parameters or the gradient where there are
/// none; its bits depend neither on the processor nor on the number of threads. Leaves are float32 or float64 on the
/// CPU, or, where `coupling` is empty, all on one CUDA device, which gives the same bits.
class FunctionalOptimizer {
 public:
  using State = OptimizerState;

  explicit FunctionalOptimizer(std::shared_ptr<const Algorithm> algorithm);

  [[nodiscard]] State init(const PyTree& params) const;

  /// UsageError when gradient, state and parameters do not fit each other; when the parameters are needed, as for
  /// weight decay; when a pair is fed to an optimizer without a second moment; when noise is to be corrected for and
  /// its standard deviation is not known.
  [[nodiscard]] Updated<State> update(Gradient gradient, const State& state) const;
  [[nodiscard]] Updated<State> update(Gradient gradient, const State& state, const PyTree& params) const;

  /// One step in place: `params` and `state` become those after the step with gradient / divisor; of a pair both are
  /// divided. The bits are those of `update` and `apply_updates` for a gradient of the parameters' dtype. Element-wise
  /// optimizers without update_rms_clip make one pass over memory. UsageError as `update`, and for parameters that are
  /// not contiguous or of another dtype than the state; nothing has changed then.
  void step_(const PyTree& params, Gradient gradient, State& state, double divisor = 1) const;

  /// The parameters to evaluate and to publish: those that an average holds, else `params` itself. A function of what
  /// was released, so it costs no privacy.
  [[nodiscard]] PyTree published(const PyTree& params, const State& state) const;

  [[nodiscard]] std::string name() const;
  /// Why the update of an element depends on other elements, or "" where it does not: then a part of the parameters can
  /// be updated by itself.
  [[nodiscard]] std::string coupling() const;

  [[nodiscard]] const std::shared_ptr<const Algorithm>& algorithm() const { return algorithm_; }

 private:
  [[nodiscard]] Step operands(const Gradient& gradient, const State& state, const PyTree* params, double divisor) const;
  [[nodiscard]] Updated<State> updated(const Gradient& gradient, const State& state, const PyTree* params) const;

  std::shared_ptr<const Algorithm> algorithm_;
};

}  // namespace ripieno::optim
