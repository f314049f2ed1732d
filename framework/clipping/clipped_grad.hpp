#pragma once

#include <concepts>
#include <limits>
#include <memory>
#include <optional>
#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <ripieno/framework/clipping/example_gradients.hpp>
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

/// How many examples of a batch were clipped. PRIVATE: exact counts, without noise and accounted for nowhere (invariant
/// P1).
struct ClippingStats {
  std::int64_t num_clipped = 0;                             ///< in some group, where there are groups
  double clipping_rate = 0;                                 ///< of the realised batch; 0 for an empty one
  std::map<std::string, std::int64_t> group_num_clipped{};  ///< by name; empty without groups
  std::int64_t batch_size = 0;
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

/// A loss returns its values, or a pair of them and of whatever else it has to say (a tensor or tree): its aux.
inline const at::Tensor& loss_of(const at::Tensor& result) { return result; }
template <class Aux>
const at::Tensor& loss_of(const std::pair<at::Tensor, Aux>& result) {
  return result.first;
}
inline std::optional<PyTree> aux_of(const at::Tensor&) { return std::nullopt; }
template <class Aux>
std::optional<PyTree> aux_of(const std::pair<at::Tensor, Aux>& result) {
  return PyTree(result.second);
}

/// A loss with its arguments bound: what the engines call, and its aux for the whole batch (none for an empty one).
struct BoundLoss {
  LossFn values;
  std::function<std::optional<PyTree>(const PyTree& params, std::span<const at::Tensor> batch)> aux;
};

struct ClippedGradient {
  Clipped<PyTree> sum;
  ClippedSum counts;
};

/// The normalised clipped sum with its metadata.
ClippedGradient clipped_gradient(ClippingEngine& engine, const LossFn& loss, const ArgumentRoles& roles,
                                 const ClippingOptions& options);
[[nodiscard]] std::pair<Clipped<PyTree>, ClippingAux> clipped_gradient_with_aux(const BoundLoss& loss,
                                                                                const ArgumentRoles& roles,
                                                                                const ClippingOptions& options);
[[nodiscard]] ClippedPair<PyTree> clipped_moments(const LossFn& loss, const ArgumentRoles& roles,
                                                  const ClippingOptions& options);
[[nodiscard]] ClippingStats stats_of(const ClippedSum& counts, const ClippingOptions& options);

/// f(roles, loss bound to the arguments), for the arguments of a call but its last, the state.
template <class Loss, class Tuple, class F, std::size_t... I>
auto with_arguments(const Loss& loss, const ClippingOptions& options, const Tuple& all, std::index_sequence<I...>,
                    F f) {
  const ArgumentRoles roles(options, {as_tree(std::get<I>(all))...});
  const auto call = [&](const PyTree& params, std::span<const at::Tensor> batch) {
    const std::vector<std::optional<PyTree>> substitutes = roles.substitutes(params, batch);
    return loss(chosen(substitutes[I], std::get<I>(all))...);
  };
  const BoundLoss bound{
      .values = [&](const PyTree& params, std::span<const at::Tensor> batch) -> at::Tensor {
        return loss_of(call(params, batch));
      },
      .aux = [&](const PyTree& params, std::span<const at::Tensor> batch) { return aux_of(call(params, batch)); }};
  return f(roles, bound);
}

/// The type of a call's last argument.
template <class... Args>
using LastOf = std::tuple_element_t<sizeof...(Args) - 1, std::tuple<Args...>>;

}  // namespace detail

/// What `clipped_grad` returns: grad_fn(arguments of the loss…, state) -> {Clipped<PyTree>, next state}.
///
/// The result is sum_i clip(gradient of example i) / normalize_by over this rank's batch, in the options' sum_dtype,
/// with max_norm = clipping_norm / normalize_by and Extent::local. Its leaves are consecutive views of one buffer. An
/// empty batch gives exact zeros without calling the loss. UsageError for uneven batch arguments or a loss that is not
/// one value per example. Copies share the engine; use one copy chain per thread.
///
/// Three more forms return more, from the same arguments:
/// - with_stats: {Clipped, ClippingStats, state};
/// - with_aux: {Clipped, ClippingAux, state}, forming each gradient in memory; the loss is called once more for its
/// aux;
/// - second_moment: {ClippedPair, state}, the sums of contributions and of their squares, bounded by clipping_norm^2 /
///   normalize_by, forming each gradient in memory.
/// What ClippingStats and ClippingAux hold is PRIVATE: never print, log or store it where others can read.
template <class Loss>
class ClippedGradFn {
 public:
  ClippedGradFn(Loss loss, ClippingOptions options)
      : loss_(std::move(loss)),
        options_(std::move(options)),
        engine_(make_engine(options_.engine, detail::limits_of(options_))) {}

  template <class... Args>
  std::pair<Clipped<PyTree>, FixedClipState> operator()(const Args&... arguments_and_state) const {
    return {gradient(arguments_and_state...).sum, FixedClipState{}};
  }

  template <class... Args>
  std::tuple<Clipped<PyTree>, ClippingStats, FixedClipState> with_stats(const Args&... arguments_and_state) const {
    const detail::ClippedGradient clipped = gradient(arguments_and_state...);
    return {clipped.sum, detail::stats_of(clipped.counts, options_), FixedClipState{}};
  }

  template <class... Args>
  std::tuple<Clipped<PyTree>, ClippingAux, FixedClipState> with_aux(const Args&... arguments_and_state) const {
    auto [sum, aux] =
        call([this](const detail::ArgumentRoles& roles,
                    const detail::BoundLoss& loss) { return detail::clipped_gradient_with_aux(loss, roles, options_); },
             arguments_and_state...);
    return {std::move(sum), std::move(aux), FixedClipState{}};
  }

  template <class... Args>
  std::pair<ClippedPair<PyTree>, FixedClipState> second_moment(const Args&... arguments_and_state) const {
    return {
        call([this](const detail::ArgumentRoles& roles,
                    const detail::BoundLoss& loss) { return detail::clipped_moments(loss.values, roles, options_); },
             arguments_and_state...),
        FixedClipState{}};
  }

  [[nodiscard]] const ClippingOptions& options() const noexcept { return options_; }
  /// "automatic" until the first example has been seen, then the engine in use.
  [[nodiscard]] std::string_view engine_name() const { return engine_->name(); }

 private:
  template <class F, class... Args>
  auto call(F f, const Args&... arguments_and_state) const {
    static_assert(sizeof...(Args) >= 3, "call it as grad_fn(params, batch arguments..., state)");
    static_assert(std::same_as<detail::LastOf<Args...>, FixedClipState>,
                  "the last argument of grad_fn is the clipping state");
    return detail::with_arguments(loss_, options_, std::tie(arguments_and_state...),
                                  std::make_index_sequence<sizeof...(Args) - 1>(), f);
  }

  template <class... Args>
  detail::ClippedGradient gradient(const Args&... arguments_and_state) const {
    return call(
        [this](const detail::ArgumentRoles& roles, const detail::BoundLoss& loss) {
          return detail::clipped_gradient(*engine_, loss.values, roles, options_);
        },
        arguments_and_state...);
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
/// arguments of n examples, or a pair of these and an aux; it may take further arguments, which are passed as they are.
/// UsageError names an option that makes no sense. Clipping and summing: Abadi et al., "Deep Learning with Differential
/// Privacy" (2016), Algorithm 1.
template <class Loss>
[[nodiscard]] ClippedGrad<std::decay_t<Loss>> clipped_grad(Loss&& loss, ClippingOptions options) {
  check_options(options);
  return {ClippedGradFn<std::decay_t<Loss>>(std::forward<Loss>(loss), std::move(options)), FixedClipState{}};
}

}  // namespace ripieno
