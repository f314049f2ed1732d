#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/functional/make_functional.hpp>
#include <string>
#include <unordered_map>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace ripieno {

/// A TorchScript module called as a function of its parameters; made by make_functional.
///
/// Each call puts the leaves into the module's attributes, runs `forward` and puts the module's own tensors back, also
/// when it throws. The interpreter's optimiser stays off, so that autograd records the ordinary graph of the
/// operations, which every engine reads. Copies share the module; one call at a time.
class ScriptFunction {
 public:
  /// Parameters that do not require gradients are frozen: constants of the module like its buffers. A tensor under
  /// several names is one parameter, under the first of them.
  ///
  /// UsageError names a batch normalisation in training mode, an attribute that could carry values from one call to
  /// the next, or says that there is nothing to train.
  explicit ScriptFunction(const torch::jit::Module& module);

  /// module.forward(inputs…) computed with `params`.
  template <class... Inputs>
  at::Tensor operator()(const PyTree& params, const Inputs&... inputs) const {
    return call(params, {c10::IValue(inputs)...});
  }

  using Keywords = std::unordered_map<std::string, c10::IValue>;

  /// module.forward(*inputs, **keywords). UsageError when `params` do not fit the module, when forward does not return
  /// one tensor, raises an exception of its own, or changed an attribute of the module; c10::Error with the plain
  /// message of an operator that failed.
  [[nodiscard]] at::Tensor call(const PyTree& params, std::vector<c10::IValue> inputs,
                                const Keywords& keywords = {}) const;

  /// The trained parameters, named by dots, as detached leaves that share the module's memory.
  [[nodiscard]] const PyTree& initial_params() const noexcept;
  /// The frozen ones likewise.
  [[nodiscard]] const PyTree& frozen_params() const noexcept;

  /// Writes the module with `params` in place to a new file, which torch.jit.load opens; buffers and frozen parameters
  /// are written as they are. `notes` become files beside the code (`_extra_files` in Python).
  void save(const std::string& path, const PyTree& params,
            const std::unordered_map<std::string, std::string>& notes = {}) const;

 private:
  class Module;
  std::shared_ptr<const Module> module_;
};

/// A TorchScript module, from torch::jit::load: every engine, as far as its operators allow.
[[nodiscard]] Functional<ScriptFunction> make_functional(const torch::jit::Module& module);

}  // namespace ripieno
