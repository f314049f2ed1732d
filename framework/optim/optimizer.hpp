#pragma once

#include <concepts>
#include <optional>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/core/pytree.hpp>

namespace ripieno {
namespace optim {

/// What an optimizer is fed: a noised gradient, a noised pair of the gradient and the sum of its squares, or a plain
/// tree for training without privacy. A clipped sum that has not been noised does not compile: its release would not be
/// covered by any noise.
class Gradient {
 public:
  Gradient(const PyTree& plain) : tree_(plain) {}  // NOLINT(google-explicit-constructor)
  Gradient(const Noised<PyTree>& noised)           // NOLINT(google-explicit-constructor)
      : tree_(noised.tree()), noised_(&noised) {}
  /// The second of the pair is what adaptive optimizers make their second moment of, in place of the squared first.
  Gradient(const NoisedPair<PyTree>& pair)  // NOLINT(google-explicit-constructor)
      : tree_(pair.first.tree()), squares_(&pair.second.tree()), noised_(&pair.first) {}
  Gradient(const Clipped<PyTree>&) = delete;
  Gradient(const ClippedPair<PyTree>&) = delete;

  [[nodiscard]] const PyTree& tree() const { return tree_; }
  /// Null unless this is a pair.
  [[nodiscard]] const PyTree* squares() const { return squares_; }
  /// Standard deviation of the noise in each element of a leaf: 0 for a plain tree, nothing where it is not known.
  [[nodiscard]] std::optional<double> noise_stddev(const std::string& path) const;

 private:
  const PyTree& tree_;
  const PyTree* squares_ = nullptr;
  const Noised<PyTree>* noised_ = nullptr;
};

/// Result of an update; `auto [updates, next_state] = optimizer.update(noisy, state)`.
template <class State>
struct Updated {
  PyTree updates;  ///< to be added to the parameters
  State state;
};

/// An optimizer is a value with a state type. The state holds everything that changes, the step count included, so that
/// a restored state continues bit for bit. `update` modifies none of its arguments; its result is a function of them,
/// so ranks that hold equal parameters stay equal.
template <class O>
concept Optimizer = std::equality_comparable<typename O::State> &&
    requires(const O& optimizer, const PyTree& params, Gradient gradient, const typename O::State& state) {
  { optimizer.init(params) } -> std::same_as<typename O::State>;
  { optimizer.update(gradient, state) } -> std::same_as<Updated<typename O::State>>;
  { optimizer.update(gradient, state, params) } -> std::same_as<Updated<typename O::State>>;
};

}  // namespace optim

/// params + updates, leaf by leaf, in the dtype of the parameters. The arguments keep their values. UsageError when
/// structure or shapes differ.
[[nodiscard]] PyTree apply_updates(const PyTree& params, const PyTree& updates);
/// The same in place.
void apply_updates_(const PyTree& params, const PyTree& updates);

}  // namespace ripieno
