#pragma once

#include <concepts>
#include <optional>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/core/pytree.hpp>

namespace ripieno {
namespace optim {

/// What an optimizer is fed: a noised gradient, or a plain tree for training without privacy. A clipped sum that has
/// not been noised does not compile: its release would not be covered by any noise.
struct Gradient {
  Gradient(const PyTree& plain) : tree(plain) {}  // NOLINT(google-explicit-constructor)
  Gradient(const Noised<PyTree>& noised)          // NOLINT(google-explicit-constructor)
      : tree(noised.tree()), noise_stddev(noised.noise_stddev()) {}
  Gradient(const Clipped<PyTree>&) = delete;

  const PyTree& tree;
  std::optional<double> noise_stddev = std::nullopt;
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
