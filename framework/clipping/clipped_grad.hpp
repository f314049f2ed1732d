#pragma once

#include <concepts>
#include <limits>
#include <memory>
#include <optional>
#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace ripieno {

/// Clipping to a fixed norm keeps nothing between steps; the state is there so that every clipping rule is called
/// alike.
struct FixedClipState {
  friend bool operator==(const FixedClipState&, const FixedClipState&) = default;
};

namespace detail {

/// Which of a loss's arguments are parameters, which run over examples and which are passed whole.
class ArgumentRoles {
 public:
  /// `arguments`: each argument as a tree, or nothing for one that is neither a PyTree nor a tensor. Position errors
  /// and arguments that cannot play their part are UsageErrors.
  ArgumentRoles(const ClippingOptions& options, std::vector<std::optional<PyTree>> arguments);

  /// The differentiated argument; several of them as a list in the order of argnums.
  [[nodiscard]] const PyTree& params() const noexcept { return params_; }
  /// All tensors of the batch arguments, in the order of batch_argnums.
  [[nodiscard]] const std::vector<at::Tensor>& batch() const noexcept { return batch_; }

  /// Per argument, what the loss is to be called with in its place; nothing where it is passed as it came.
  [[nodiscard]] std::vector<std::optional<PyTree>> substitutes(const PyTree& params,
                                                               std::span<const at::Tensor> batch) const;

 private:
  std::vector<std::size_t> argnums_, batch_argnums_;
  std::vector<std::optional<PyTree>> arguments_;
  PyTree params_;
  std::vector<at::Tensor> batch_;
};

inline std::optional<PyTree> as_tree(const PyTree& tree) { return tree; }
inline std::optional<PyTree> as_tree(const at::Tensor& tensor) { return PyTree(tensor); }
template <class T>
std::optional<PyTree> as_tree(const T&) {
  return std::nullopt;
}

inline const PyTree& chosen(const std::optional<PyTree>& substitute, const PyTree& original) {
  return substitute ? *substitute : original;
}
inline const at::Tensor& chosen(const std::optional<PyTree>& substitute, const at::Tensor& original) {
  return substitute ? substitute->tensor() : original;
}
template <class T>
const T& chosen(const std::optional<PyTree>&, const T& original) {
  return original;
}

/// Without a plan nothing is proven of the rounding of sums, so any spread will do.
[[nodiscard]] inline EngineLimits limits_of(const ClippingOptions& options) {
  return {.memory_budget = options.memory_budget, .max_spread = std::numeric_limits<double>::infinity()};
}

/// The normalised clipped sum with its metadata.
Clipped<PyTree> clipped_gradient(ClippingEngine& engine, const LossFn& loss, const ArgumentRoles& roles,
                                 const ClippingOptions& options);

}  // namespace detail

/// What `clipped_grad` returns: grad_fn(arguments of the loss…, state) -> {Clipped<PyTree>, next state}.
///
/// The result is sum_i clip(gradient of example i) / normalize_by over this rank's batch, in the options' sum_dtype,
/// with max_norm = clipping_norm / normalize_by and Extent::local. Its leaves are consecutive views of one buffer. An
/// empty batch gives exact zeros without calling the loss. UsageError for uneven batch arguments or a loss that is not
/// one value per example. Copies share the engine; use one copy chain per thread.
template <class Loss>
class ClippedGradFn {
 public:
  ClippedGradFn(Loss loss, ClippingOptions options)
      : loss_(std::move(loss)),
        options_(std::move(options)),
        engine_(make_engine(options_.engine, detail::limits_of(options_))) {}

  template <class... Args>
  std::pair<Clipped<PyTree>, FixedClipState> operator()(const Args&... arguments_and_state) const {
    static_assert(sizeof...(Args) >= 3, "call it as grad_fn(params, batch arguments..., state)");
    const auto all = std::tie(arguments_and_state...);
    using State = std::tuple_element_t<sizeof...(Args) - 1, std::tuple<Args...>>;
    static_assert(std::same_as<State, FixedClipState>, "the last argument of grad_fn is the clipping state");
    return {call(all, std::make_index_sequence<sizeof...(Args) - 1>()), FixedClipState{}};
  }

  [[nodiscard]] const ClippingOptions& options() const noexcept { return options_; }
  /// "automatic" until the first example has been seen, then the engine in use.
  [[nodiscard]] std::string_view engine_name() const { return engine_->name(); }

 private:
  template <class Tuple, std::size_t... I>
  Clipped<PyTree> call(const Tuple& arguments, std::index_sequence<I...>) const {
    const detail::ArgumentRoles roles(options_, {detail::as_tree(std::get<I>(arguments))...});
    const LossFn loss = [&](const PyTree& params, std::span<const at::Tensor> batch) -> at::Tensor {
      const std::vector<std::optional<PyTree>> substitutes = roles.substitutes(params, batch);
      return loss_(detail::chosen(substitutes[I], std::get<I>(arguments))...);
    };
    return detail::clipped_gradient(*engine_, loss, roles, options_);
  }

  Loss loss_;
  ClippingOptions options_;
  std::shared_ptr<ClippingEngine> engine_;
};

template <class Loss>
struct ClippedGrad {
  ClippedGradFn<Loss> grad_fn;
  FixedClipState state;
};

/// The differentially private gradient of `loss`: auto [grad_fn, state] = clipped_grad(loss, {.clipping_norm = 1.0,
/// …}).
///
/// loss(const PyTree& params, const Tensor& batch arguments…) returns one loss per example, shape [n], for batch
/// arguments of n examples; it may take further arguments, which are passed as they are. UsageError names an option
/// that makes no sense. Clipping and summing: Abadi et al., "Deep Learning with Differential Privacy" (2016),
/// Algorithm 1.
template <class Loss>
[[nodiscard]] ClippedGrad<std::decay_t<Loss>> clipped_grad(Loss&& loss, ClippingOptions options) {
  check_options(options);
  return {ClippedGradFn<std::decay_t<Loss>>(std::forward<Loss>(loss), std::move(options)), FixedClipState{}};
}

}  // namespace ripieno
