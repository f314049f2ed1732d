#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/functional/module_binding.hpp>
#include <set>
#include <sstream>

namespace ripieno {
namespace {

bool is_running_statistic(const std::string& name) {
  const std::string last = name.substr(name.rfind('.') + 1);
  return last == "running_mean" || last == "running_var" || last == "num_batches_tracked";
}

/// Refuses layers whose output for one example depends on others, or that keep statistics of examples.
void check_layers(const torch::nn::Module& module, const std::string& name) {
  const std::string shown = name.empty() ? "the module" : "layer '" + name + "'";
  if (module.is_training()) {
    const std::string advice = "use GroupNorm or LayerNorm, or call eval() on it before make_functional";
    if (module.name().find("BatchNorm") != std::string::npos)
      throw UsageError(shown + " is a batch normalisation",
                       "it mixes the examples of a batch, so no gradient belongs to one", advice);
    for (const auto& buffer : module.named_buffers(/*recurse=*/false))
      if (is_running_statistic(buffer.key()))
        throw UsageError(shown + " keeps '" + buffer.key() + "'",
                         "running statistics carry private examples out of the step", advice);
  }
  for (const auto& child : module.named_children())
    check_layers(*child.value(), name.empty() ? child.key() : name + "." + child.key());
}

/// Whether vmap or grad of functorch stands a tensor of its own in for the leaf: it has no memory to share.
bool is_transformed(const at::Tensor& leaf) {
  using enum c10::DispatchKey;
  return leaf.key_set().has_any(c10::DispatchKeySet({FuncTorchGradWrapper, FuncTorchBatched}));
}

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.is_alias_of(b) && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

/// The module's tensor takes the leaf's memory and gradient edge.
void tie(const at::Tensor& parameter, const at::Tensor& leaf) {
  using namespace torch::autograd;
  const Edge edge = leaf.requires_grad() ? impl::gradient_edge(leaf) : Edge();
  impl::set_gradient_edge(parameter, Edge());
  parameter.unsafeGetTensorImpl()->set_requires_grad(false);
  if (!same_memory(parameter, leaf)) {
    parameter.set_data(leaf.detach());
    impl::bump_version(parameter);
  }
  impl::set_gradient_edge(parameter, edge);
}

}  // namespace

ModuleBinding::ModuleBinding(const torch::nn::Module& module) {
  check_layers(module, "");
  std::map<std::string, at::Tensor> handles;
  std::set<const void*> seen;
  for (const auto& parameter : module.named_parameters()) {
    const at::Tensor& tensor = parameter.value();
    if (!tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    if (tensor.requires_grad())
      handles.emplace(parameter.key(), tensor);
    else
      constants_.push_back({parameter.key(), tensor, tensor._version()});
  }
  for (const auto& buffer : module.named_buffers())
    if (buffer.value().defined()) constants_.push_back({buffer.key(), buffer.value(), buffer.value()._version()});

  std::vector<std::pair<std::string, at::Tensor>> leaves;
  for (const auto& [path, tensor] : handles) leaves.emplace_back(path, tensor.detach());
  params_ = PyTree::from_paths(leaves);
  paths_ = params_.paths();
  for (const std::string& path : paths_) parameters_.push_back(handles.at(path));
}

void ModuleBinding::bind(const PyTree& params) const {
  check_same_structure(params, params_, "the parameters given and those of the module");
  const std::vector<at::Tensor> leaves = params.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (is_transformed(leaves[i]))
      throw UsageError("a torch::nn module cannot be called under vmap",
                       "it computes with tensors of its own, for which one that stands for many cannot be put",
                       "write the model as a function of its parameters, make_functional(function, params), or use "
                       "engine bookkeeping or loop");
    if (leaves[i].sizes() == parameters_[i].sizes() && leaves[i].is_floating_point()) continue;
    std::ostringstream why;
    why << "it has shape " << leaves[i].sizes() << " and dtype " << leaves[i].scalar_type()
        << ", the module's has shape " << parameters_[i].sizes();
    throw UsageError("parameter '" + paths_[i] + "' does not fit the module", why.str());
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) tie(parameters_[i], leaves[i]);
}

void ModuleBinding::check_constants() const {
  for (const Constant& constant : constants_)
    if (constant.tensor._version() != constant.version)
      throw UsageError("the module changed its buffer '" + constant.name + "'",
                       "a value computed from private examples would outlive the step",
                       "use a layer without running statistics, or put the module in eval mode");
}

}  // namespace ripieno
