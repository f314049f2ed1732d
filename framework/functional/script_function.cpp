#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/jit_exception.h>

#include <map>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/functional/script_attributes.hpp>
#include <ripieno/framework/functional/script_function.hpp>
#include <ripieno/framework/functional/script_layers.hpp>
#include <sstream>
#include <string_view>

namespace ripieno {
namespace {

namespace jit = torch::jit;

/// oneDNN computes a whole LSTM in one operation whose backward node knows no single use of a parameter; Torch's own
/// kernels compute the same step by step. A switch of the process, so it is off only while such a model runs.
class PlainRecurrence {
 public:
  explicit PlainRecurrence(bool wanted) : before_(at::globalContext().userEnabledMkldnn()) {
    if (wanted) at::globalContext().setUserEnabledMkldnn(false);
  }
  ~PlainRecurrence() { at::globalContext().setUserEnabledMkldnn(before_); }
  PlainRecurrence(const PlainRecurrence&) = delete;
  PlainRecurrence& operator=(const PlainRecurrence&) = delete;

 private:
  bool before_;
};

/// A warning of the model's own code may quote an example.
class NoWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

/// The message of an operator that failed, without what the interpreter put around it: its last line.
std::string plain_message(std::string_view text) {
  constexpr std::string_view k_mark = "\nRuntimeError: ";
  const std::size_t mark = text.rfind(k_mark);
  const std::string_view message = mark == std::string_view::npos ? text : text.substr(mark + k_mark.size());
  return std::string(message.substr(0, message.find('\n')));
}

c10::IValue run(const jit::Module& module, std::vector<c10::IValue> inputs, const ScriptFunction::Keywords& keywords) {
  const jit::GraphOptimizerEnabledGuard ordinary_graph(false);
  NoWarnings quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  try {
    return module.get_method("forward")(std::move(inputs), keywords);
  } catch (const jit::JITException& error) {
    // Its text is the model's own and may quote an example.
    throw UsageError("the model raised " + error.getPythonClassName().value_or("an exception"),
                     "its forward ran into a raise statement", "check the shapes and values that it takes");
  } catch (const c10::Error& error) {
    TORCH_CHECK(false, plain_message(error.what_without_backtrace()));
  } catch (const std::runtime_error& error) {
    TORCH_CHECK(false, plain_message(error.what()));
  }
}

}  // namespace

/// The module with the places of its tensors.
class ScriptFunction::Module {
 public:
  explicit Module(const jit::Module& module)
      : module_(module), attributes_(module), recurrent_(script_calls(module, "aten::lstm")) {
    check_script_layers(module);
    params_ = attributes_.trained();
    frozen_ = attributes_.frozen();
    if (params_.num_leaves() == 0)
      throw UsageError("the model has no parameter to train", "none of its parameters requires a gradient",
                       "save it unfrozen: torch.jit.freeze and optimize_for_inference turn parameters into constants");
  }

  [[nodiscard]] at::Tensor call(const PyTree& params, std::vector<c10::IValue> inputs, const Keywords& keywords) const {
    check(params);
    c10::IValue output;
    {
      const ScriptAttributes::Bound bound(attributes_, params.leaves());
      const PlainRecurrence plain(recurrent_);
      output = run(module_, std::move(inputs), keywords);
    }
    attributes_.check_constants();
    if (!output.isTensor())
      throw UsageError("the model returns " + output.tagKind(), "it must return one tensor",
                       "save a module whose forward picks it out");
    return output.toTensor();
  }

  void save(const std::string& path, const PyTree& params,
            const std::unordered_map<std::string, std::string>& notes) const {
    check(params);
    const auto variable = [](const at::Tensor& leaf) { return leaf.detach().requires_grad_(true); };
    const ScriptAttributes::Bound bound(attributes_, params.map(variable).leaves());
    module_.save(path, notes);
  }

  [[nodiscard]] const PyTree& params() const noexcept { return params_; }
  [[nodiscard]] const PyTree& frozen() const noexcept { return frozen_; }

 private:
  void check(const PyTree& params) const {
    check_same_structure(params, params_, "the parameters given and those of the model");
    const std::vector<at::Tensor> given = params.leaves(), own = params_.leaves();
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i].sizes() == own[i].sizes() && given[i].is_floating_point()) continue;
      std::ostringstream why;
      why << "it has shape " << given[i].sizes() << " and dtype " << given[i].scalar_type()
          << ", the model's has shape " << own[i].sizes();
      throw UsageError("parameter '" + params.paths()[i] + "' does not fit the model", why.str());
    }
  }

  jit::Module module_;
  ScriptAttributes attributes_;
  bool recurrent_;
  PyTree params_, frozen_;
};

ScriptFunction::ScriptFunction(const jit::Module& module) : module_(std::make_shared<const Module>(module)) {}

at::Tensor ScriptFunction::call(const PyTree& params, std::vector<c10::IValue> inputs, const Keywords& keywords) const {
  return module_->call(params, std::move(inputs), keywords);
}

const PyTree& ScriptFunction::initial_params() const noexcept { return module_->params(); }

const PyTree& ScriptFunction::frozen_params() const noexcept { return module_->frozen(); }

void ScriptFunction::save(const std::string& path, const PyTree& params,
                          const std::unordered_map<std::string, std::string>& notes) const {
  module_->save(path, params, notes);
}

Functional<ScriptFunction> make_functional(const jit::Module& module) {
  ScriptFunction function(module);
  PyTree params = function.initial_params();
  return {std::move(function), std::move(params)};
}

}  // namespace ripieno
