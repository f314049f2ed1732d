#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/functional/script_function.hpp>
#include <ripieno/framework/models/script_model.hpp>
#include <sstream>

namespace ripieno {
namespace {

constexpr const char* k_how_to_save = "save it in Python with torch.jit.script(model).save(FILE), or torch.jit.trace";

std::string read_bytes(const std::string& path) {
  if (!std::filesystem::is_regular_file(path))
    throw DataError("cannot read model " + path, "there is no such file", "check --model");
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw DataError("cannot read model " + path);
  return bytes;
}

torch::jit::Module parse(const std::string& path, const std::string& bytes) {
  try {
    std::istringstream stream(bytes);
    return torch::jit::load(stream, at::kCPU);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw DataError(path + " is no TorchScript file", text.substr(0, text.find('\n')), k_how_to_save);
  }
}

std::string parameter_names(const c10::FunctionSchema& schema) {
  std::vector<std::string> names;
  for (std::size_t i = 2; i < schema.arguments().size(); ++i) names.push_back(schema.arguments()[i].name());
  return names.empty() ? "it takes the examples alone" : "it takes, after the examples, " + join(names);
}

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// The text as a value of that type; None where it does not read as one.
c10::IValue value_of(const std::string& text, const c10::Type& type) {
  if (type.kind() == c10::TypeKind::StringType) return text;
  if (type.kind() == c10::TypeKind::BoolType && (text == "true" || text == "false")) return text == "true";
  if (type.kind() == c10::TypeKind::IntType)
    if (const auto number = number_in<std::int64_t>(text)) return *number;
  if (type.kind() == c10::TypeKind::FloatType)
    if (const auto number = number_in<double>(text)) return *number;
  if (const auto* optional = type.castRaw<c10::OptionalType>()) return value_of(text, *optional->getElementType());
  return {};
}

ScriptFunction::Keywords keywords_of(const ModelSpec& spec, const c10::FunctionSchema& schema) {
  ScriptFunction::Keywords keywords;
  for (const auto& [name, text] : spec.args) {
    const auto index = schema.argumentIndexWithName(name);
    if (!index || *index < 2)
      throw UsageError("the forward of " + spec.name + " has no argument '" + name + "'", parameter_names(schema));
    const c10::Type& type = *schema.arguments()[static_cast<std::size_t>(*index)].type();
    c10::IValue value = value_of(text, type);
    if (value.isNone())
      throw UsageError("the forward of " + spec.name + " cannot take " + name + "=" + text,
                       name + " is of type " + type.annotation_str(), "int, float, bool and str can be given");
    keywords.emplace(name, std::move(value));
  }
  return keywords;
}

void check_dtypes(const PyTree& params, const std::string& model) {
  const std::vector<at::Tensor> leaves = params.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].scalar_type() != at::kFloat)
      throw UsageError("parameter '" + params.paths()[i] + "' of " + model + " is " +
                           std::string(at::toString(leaves[i].scalar_type())),
                       "training is in float32", "save model.float(), or freeze it with requires_grad_(False)");
}

}  // namespace

bool names_script_file(std::string_view model) { return model.ends_with(".pt") || model.ends_with(".pth"); }

Model make_script_model(const ModelSpec& spec) {
  const std::string bytes = read_bytes(spec.name);
  const torch::jit::Module module = parse(spec.name, bytes);
  if (!module.find_method("forward")) throw UsageError(spec.name + " has no forward", {}, k_how_to_save);
  const ScriptFunction function(module);
  check_dtypes(function.initial_params(), spec.name);
  const ScriptFunction::Keywords keywords = keywords_of(spec, module.get_method("forward").function().getSchema());

  // The trainer updates parameters in place; the module's own stay as they were read.
  const auto copy = [](const at::Tensor& leaf) { return leaf.detach().contiguous().clone(); };
  Model model{.name = std::filesystem::path(spec.name).filename().string(),
              .params = function.initial_params().map(copy),
              .forward = [function, keywords](const PyTree& params,
                                              const at::Tensor& x) { return function.call(params, {x}, keywords); },
              .feature_map = {}};
  model.frozen = function.frozen_params();
  model.save = [function](const std::string& path, const PyTree& params, const Model::Notes& notes) {
    function.save(path, params, notes);
  };
  model.sha256 = to_hex(sha256(bytes));
  return model;
}

}  // namespace ripieno
