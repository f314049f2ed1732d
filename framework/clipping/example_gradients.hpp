#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <ripieno/framework/core/carriers.hpp>
#include <string>
#include <vector>

namespace ripieno {

/// What clipping found out about each of n examples. PRIVATE, like the loss and the batch itself: nothing here carries
/// noise or is accounted for, so it must not leave the process but to the operator's eyes (invariant P1).
struct ClippingAux {
  at::Tensor losses;                              ///< float64 [n]
  at::Tensor norms;                               ///< float64 [n], before clipping
  at::Tensor clipped_norms;                       ///< float64 [n], of the contributions as stored
  std::map<std::string, at::Tensor> group_norms;  ///< before clipping, by name; empty without groups
  std::optional<PyTree> loss_aux;                 ///< what the loss returned beside its values
  std::optional<double> clipping_rate;            ///< none where there are groups; 0 for an empty batch
  std::int64_t batch_size = 0;
};

namespace detail {

/// Clips the trees of examples one by one and adds them up in float64: the way that takes any tree and any dtype.
class TreeClipper {
 public:
  /// `like` has the structure and shapes of an example's tree. `sum_dtype`: of the sums.
  TreeClipper(const ClippingOptions& options, const PyTree& like, at::ScalarType sum_dtype);

  /// An example's tree; one that is `masked` adds zero (a loss that is not finite).
  void add(const PyTree& example, bool masked);

  [[nodiscard]] PyTree sum() const { return of_dtype(sum_); }
  /// Sum of the squares, element by element, of the contributions as stored.
  [[nodiscard]] PyTree sum_of_squares() const { return of_dtype(squares_); }
  /// Counts, without `flat` and losses.
  [[nodiscard]] const ClippedSum& counts() const noexcept { return counts_; }
  /// norms, clipped_norms, group_norms, rate and size.
  [[nodiscard]] ClippingAux aux() const;

 private:
  [[nodiscard]] ClippedTree clipped(const PyTree& example, bool masked) const;
  [[nodiscard]] PyTree of_dtype(const std::vector<at::Tensor>& leaves) const;
  void count(const ClippedTree& clipped, bool masked);

  const ClippingOptions& options_;
  PyTree like_;
  at::ScalarType sum_dtype_;
  std::vector<at::Tensor> sum_, squares_;  // float64, or complex128
  std::vector<double> norms_, clipped_norms_;
  std::vector<std::vector<double>> group_norms_;
  ClippedSum counts_;
};

/// The gradients of the examples of a batch, formed and clipped one by one.
struct ExampleGradients {
  PyTree sum;
  PyTree sum_of_squares;
  ClippedSum counts;
  ClippingAux aux;
};

/// An empty batch gives zeros of the transformed structure, without calling the loss. Throws as clipped_sum.
[[nodiscard]] ExampleGradients clip_example_gradients(const LossFn& loss, const PyTree& params,
                                                      std::span<const at::Tensor> batch,
                                                      const ClippingOptions& options);

/// Whether an option or a dtype asks for the gradients of examples one by one.
[[nodiscard]] bool needs_example_gradients(const ClippingOptions& options, const PyTree& params);

/// The bounds that the options state, over normalize_by, raised to `power`.
[[nodiscard]] Clipped<PyTree> with_bounds(PyTree sum, const ClippingOptions& options, int power = 1);

}  // namespace detail
}  // namespace ripieno
