#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ripieno/framework/optim/algorithm.hpp>
#include <ripieno/framework/optim/element_kernels.hpp>
#include <string>
#include <vector>

namespace ripieno::optim {

/// An array of an optimizer's state and what its elements start from.
struct Slot {
  std::string name;
  double initial = 0;
};

/// How the variance of the noise enters the second moment: phi = decay * phi + share * variance.
struct NoiseShare {
  double decay = 0, share = 1;
};

/// What makes an element-wise optimizer: the same for every element.
struct ElementWiseOptions {
  std::string name;
  LearningRate lr = {};
  double weight_decay = 0;
  /// Whether weight decay is part of the update, in place of a penalty in the gradient.
  bool decoupled = false;
  bool maximize = false;
  /// Divides the rule's output by max(1, rms / this), rms being the root of its mean square over the whole tree.
  std::optional<double> update_rms_clip = std::nullopt;
  bool takes_squares = false;
  /// Set where the second moment is corrected for noise.
  std::optional<NoiseShare> noise = std::nullopt;
  std::vector<Slot> slots = {};
  /// The rule of step t, counted from 1, for a leaf whose second moment holds noise of variance `phi`, and whose
  /// gradient in this step does of `variance`.
  std::function<ElementRule(std::int64_t t, double phi, double variance)> rule;
};

/// In one pass over memory, or two where the update is clipped; the bits depend on neither processor nor threads.
class ElementWise final : public Algorithm {
 public:
  /// UsageError where a general option is out of range.
  explicit ElementWise(ElementWiseOptions options);

  [[nodiscard]] std::string name() const override { return options_.name; }
  [[nodiscard]] OptimizerState init(const PyTree& params) const override;
  void advance(const Step& step, OptimizerState& state) const override;
  [[nodiscard]] std::string use_of_params() const override;
  [[nodiscard]] std::string coupling() const override;
  [[nodiscard]] bool takes_squares() const override { return options_.takes_squares; }
  [[nodiscard]] bool corrects_noise() const override { return options_.noise.has_value(); }

 private:
  [[nodiscard]] Shaping shaping(std::int64_t step, double divisor) const;

  ElementWiseOptions options_;
};

}  // namespace ripieno::optim
