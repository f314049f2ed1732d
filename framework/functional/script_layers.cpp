#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/functional/script_layers.hpp>

namespace ripieno {
namespace {

namespace jit = torch::jit;

constexpr const char* k_advice = "use GroupNorm or LayerNorm, or call eval() on it before saving";

[[noreturn]] void refuse_batch_norm(const std::string& name) {
  throw UsageError((name.empty() ? "the model" : "layer '" + name + "' of the model") + " is a batch normalisation",
                   "it mixes the examples of a batch, so no gradient belongs to one", k_advice);
}

void check_layer(const std::string& name, const jit::Module& layer) {
  if (!layer.is_training()) return;
  const auto class_name = layer.type()->name();
  if (class_name && class_name->name().find("BatchNorm") != std::string::npos) refuse_batch_norm(name);
  for (const auto& buffer : layer.named_buffers(/*recurse=*/false))
    if (buffer.name == "running_mean" || buffer.name == "running_var")
      throw UsageError("layer '" + name + "' of the model keeps '" + buffer.name + "'",
                       "running statistics carry private examples out of the step", k_advice);
}

std::shared_ptr<jit::Graph> whole_code(const jit::Module& module) {
  std::shared_ptr<jit::Graph> graph = module.get_method("forward").graph()->copy();
  jit::Inline(*graph);
  return graph;
}

template <class Visit>
void visit_nodes(const jit::Block& block, const Visit& visit) {
  for (const jit::Node* node : block.nodes()) {
    visit(*node);
    for (const jit::Block* inner : node->blocks()) visit_nodes(*inner, visit);
  }
}

/// The dotted path of an attribute that the code reads: "encoder.norm" for self.encoder.norm.
std::string attribute_path(const jit::Value* value) {
  std::string path;
  for (const jit::Node* node = value->node(); node->kind() == c10::prim::GetAttr; node = node->input()->node())
    path = node->s(c10::attr::name) + (path.empty() ? "" : "." + path);
  return path;
}

bool is_constant_true(const jit::Value* value) {
  const auto constant = jit::toIValue(value);
  return constant && constant->isBool() && constant->toBool();
}

/// By the operators: batch statistics are asked for by a constant.
void check_operator(const jit::Node& node) {
  if (node.kind() == c10::prim::Print)
    throw UsageError("the model prints while it computes", "what it prints may come from private examples",
                     "take print out of its forward before saving");
  if (node.kind() != c10::Symbol::fromQualString("aten::batch_norm")) return;
  if (!is_constant_true(node.namedInput("training"))) return;
  const std::string weight = attribute_path(node.namedInput("weight"));
  refuse_batch_norm(weight.substr(0, weight.rfind('.') == std::string::npos ? 0 : weight.rfind('.')));
}

}  // namespace

void check_script_layers(const jit::Module& module) {
  for (const auto& layer : module.named_modules()) check_layer(layer.name, layer.value);
  visit_nodes(*whole_code(module)->block(), check_operator);
}

bool script_calls(const jit::Module& module, const std::string& operation) {
  const auto kind = c10::Symbol::fromQualString(operation);
  bool found = false;
  visit_nodes(*whole_code(module)->block(), [&](const jit::Node& node) { found |= node.kind() == kind; });
  return found;
}

}  // namespace ripieno
