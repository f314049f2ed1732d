#pragma once

#include <concepts>
#include <memory>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/functional/module_binding.hpp>
#include <type_traits>
#include <utility>

namespace ripieno {

/// A model as a function of its parameters: auto [fmodel, params] = make_functional(…); y = fmodel(params, x).
template <class F>
struct Functional {
  F fmodel;
  PyTree params;
};

/// A torch::nn module called as a function of its parameters; made by make_functional.
///
/// The module is its workspace: after a call it stays bound to the parameters of that call, so it can be saved or
/// evaluated with them, and a backward pass must come before a call with others (see ModuleBinding). One call at a
/// time.
template <class M>
class FunctionalModule {
 public:
  explicit FunctionalModule(std::shared_ptr<M> module) : module_(std::move(module)), binding_(*module_) {}

  /// module->forward(inputs…) computed with `params`. UsageError when they do not fit the module, or when the call
  /// changed one of its buffers.
  template <class... Inputs>
  auto operator()(const PyTree& params, const Inputs&... inputs) const {
    binding_.bind(params);
    auto output = module_->forward(inputs...);
    binding_.check_constants();
    return output;
  }

  [[nodiscard]] const PyTree& initial_params() const noexcept { return binding_.params(); }

 private:
  std::shared_ptr<M> module_;
  ModuleBinding binding_;
};

/// A function Tensor(const PyTree& params, const Tensor& inputs…) with its initial parameters. Such a model works with
/// every engine and has no hidden state.
template <class F>
[[nodiscard]] Functional<std::decay_t<F>> make_functional(F&& model, PyTree initial_params) {
  return {std::forward<F>(model), std::move(initial_params)};
}

/// A torch::nn module, given as std::shared_ptr or as a holder (TORCH_MODULE, torch::nn::Linear, …). `params` share its
/// memory and are named by dots: "layers.0.weight" is params["layers"]["0"]["weight"]. Frozen parameters and buffers
/// stay constants of the module. UsageError names a layer that mixes examples.
template <class M>
requires std::derived_from<M, torch::nn::Module>
[[nodiscard]] Functional<FunctionalModule<M>> make_functional(std::shared_ptr<M> module) {
  FunctionalModule<M> fmodel(std::move(module));
  PyTree params = fmodel.initial_params();
  return {std::move(fmodel), std::move(params)};
}

template <class Holder>
requires requires(const Holder& holder) { holder.ptr(); }
[[nodiscard]] auto make_functional(const Holder& holder) { return make_functional(holder.ptr()); }

}  // namespace ripieno
