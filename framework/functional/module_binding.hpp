#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/core/pytree.hpp>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace ripieno {

/// Ties the parameters of a torch::nn module to the leaves of a PyTree, so that the module computes with those leaves
/// and gradients reach them.
///
/// A module keeps its own handles (`fc1->weight`) beside its registry, so another tensor cannot be put in their place.
/// Binding changes the tensor that the handles share instead: set_data lets it use the leaf's memory, and its gradient
/// edge is set to the leaf's own. Autograd then records the very graph that a function of the leaf would: every engine
/// sees the leaf's accumulator. Nothing is copied.
///
/// A binding holds until the next one, because the graph saves the module's tensors. When other memory is bound, their
/// version is bumped, so that a backward pass through an older graph fails instead of using the newer values.
class ModuleBinding {
 public:
  /// Parameters that are frozen (requires_grad false) and buffers stay the module's own and count as constants.
  /// UsageError names a layer that mixes examples or keeps statistics of them: batch normalisation in training mode, or
  /// any layer with running statistics that would be updated.
  explicit ModuleBinding(const torch::nn::Module& module);

  /// The trained parameters, named by dots ("layers.0.weight"), as detached leaves that share the module's memory. A
  /// tensor registered under several names appears once, under the first.
  [[nodiscard]] const PyTree& params() const noexcept { return params_; }

  /// Makes the module compute with these leaves. UsageError when structure, a shape or a dtype family differs, or
  /// under vmap; the module is then bound as before.
  void bind(const PyTree& params) const;

  /// UsageError naming a buffer or frozen parameter that was changed in place since construction: it would carry a
  /// value made from private examples out of the step.
  void check_constants() const;

 private:
  struct Constant {
    std::string name;
    at::Tensor tensor;
    std::int64_t version;
  };

  PyTree params_;
  std::vector<std::string> paths_;
  std::vector<at::Tensor> parameters_;  ///< the module's own handles, in the leaf order of params_
  std::vector<Constant> constants_;
};

}  // namespace ripieno
