#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <span>
#include <vector>

namespace ripieno::bookkeeping {

/// Three examples that stand in for private ones wherever a loss is examined, so that what an engine decides, refuses
/// or logs depends on shapes and dtypes only (invariant P1).
struct MadeUpExamples {
  PyTree params;                     ///< the given ones, moved a little, so that a zero does not hide a path
  std::vector<at::Tensor> batch;     ///< [3, …]
  std::vector<at::Tensor> replaced;  ///< the third example is another one
  std::vector<at::Tensor> spoiled;   ///< the third example is NaN in its floating point tensors
  [[nodiscard]] std::vector<at::Tensor> first(std::int64_t n) const;
  [[nodiscard]] std::vector<at::Tensor> only(std::int64_t example) const;
};

/// Examples for which the loss runs and is finite. Tried in turn until one does: floating point values normal, then in
/// (0, 1) as probabilities are; integers and booleans zeros and ones, then zeros only; parameters moved, then as they
/// are. UsageError with the loss's own message if none does.
///
/// Integers may be class indices, ids of table rows, positions or masks, and nothing says up to where they are valid
/// but the loss itself: 0 and 1 are, wherever there are two of a thing, and 0 wherever there is one. They alternate
/// along an example, so that an id is repeated in it (what a table's gradient has to add up), and differ between
/// examples. Valid values are not taken from the batch, which is private. `draw`: others for every number.
[[nodiscard]] MadeUpExamples make_up_examples(const LossFn& loss, const PyTree& params,
                                              std::span<const at::Tensor> batch, std::uint64_t draw = 0);

/// Restores the state of Torch's default CPU generator, so that examining a loss that draws random numbers does not
/// change those of the training.
class GeneratorGuard {
 public:
  GeneratorGuard();
  ~GeneratorGuard();
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

  /// Back to the state at construction.
  void rewind() const;
  /// Whether anything was drawn since.
  [[nodiscard]] bool moved() const;

 private:
  at::Tensor state_;
};

}  // namespace ripieno::bookkeeping
