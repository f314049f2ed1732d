#pragma once

#include <functional>
#include <ripieno/framework/clipping/clipped_grad.hpp>

namespace ripieno {

struct ClippedFunOptions {
  /// Positions of the function's arguments that hold one entry per example in their first dimension.
  std::vector<int> batch_argnums = {0};
  /// Bound, normaliser, microbatches, transform and types; `argnums`, `batch_argnums` and `engine` do not count.
  ClippingOptions clipping = {};
};

namespace detail {

/// A function with all but its batch tensors bound; rows for as many examples as it is given.
using RowsFn = std::function<PyTree(std::span<const at::Tensor> batch)>;

void check_options(const ClippedFunOptions& options);
/// The options of a call that differentiates nothing.
[[nodiscard]] ClippingOptions of_rows(const ClippedFunOptions& options);
[[nodiscard]] Clipped<PyTree> clipped_rows(const RowsFn& rows, std::span<const at::Tensor> batch,
                                           const ClippingOptions& options);

inline PyTree as_rows(const PyTree& rows) { return rows; }
inline PyTree as_rows(const at::Tensor& rows) { return PyTree(rows); }

}  // namespace detail

/// What `clipped_fun` returns: fn(arguments of the function…, state) -> {Clipped<PyTree>, next state}.
template <class Fun>
class ClippedFunFn {
 public:
  ClippedFunFn(Fun fun, const ClippedFunOptions& options) : fun_(std::move(fun)), options_(detail::of_rows(options)) {}

  template <class... Args>
  std::pair<Clipped<PyTree>, FixedClipState> operator()(const Args&... arguments_and_state) const {
    static_assert(std::same_as<detail::LastOf<Args...>, FixedClipState>, "the last argument is the clipping state");
    return {call(std::tie(arguments_and_state...), std::make_index_sequence<sizeof...(Args) - 1>()), FixedClipState{}};
  }

 private:
  template <class Tuple, std::size_t... I>
  Clipped<PyTree> call(const Tuple& all, std::index_sequence<I...>) const {
    const detail::ArgumentRoles roles(options_, {detail::as_tree(std::get<I>(all))...});
    const detail::RowsFn rows = [&](std::span<const at::Tensor> batch) {
      const std::vector<std::optional<PyTree>> substitutes = roles.substitutes({}, batch);
      return detail::as_rows(fun_(detail::chosen(substitutes[I], std::get<I>(all))...));
    };
    return detail::clipped_rows(rows, roles.batch(), options_);
  }

  Fun fun_;
  ClippingOptions options_;
};

template <class Fun>
struct ClippedFun {
  ClippedFunFn<Fun> fn;
  FixedClipState state;
};

/// The clipped sum of any function of examples: auto [fn, state] = clipped_fun(f, {.clipping = {.clipping_norm = 1}}).
///
/// f(batch arguments…) returns a tensor or tree whose leaves have one row per example in their first dimension; each
/// example's rows are clipped together as one tree, and summed over the examples. It may take further arguments, which
/// are passed whole. UsageError names an option that makes no sense; an empty batch is one too, since nothing is known
/// of the result's shape.
template <class Fun>
[[nodiscard]] ClippedFun<std::decay_t<Fun>> clipped_fun(Fun&& fun, const ClippedFunOptions& options) {
  detail::check_options(options);
  return {ClippedFunFn<std::decay_t<Fun>>(std::forward<Fun>(fun), options), FixedClipState{}};
}

}  // namespace ripieno
