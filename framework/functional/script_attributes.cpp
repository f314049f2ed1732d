#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/functional/script_attributes.hpp>

namespace ripieno {
namespace {

bool is_container(const c10::IValue& value) { return value.isList() || value.isGenericDict() || value.isTuple(); }

bool holds_tensors(const c10::IValue& value) {
  c10::IValue::HashAliasedIValues inside;
  value.getSubValues(inside);
  return std::ranges::any_of(inside, [](const c10::IValue& part) { return part.isTensor(); });
}

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  return value.isTensorList() ? value.toTensorVector() : std::vector<at::Tensor>{};
}

std::int64_t version_of(const at::Tensor& tensor) { return tensor.defined() ? tensor._version() : 0; }

}  // namespace

const c10::IValue& ScriptAttributes::Slot::attribute() const { return owner->getSlot(index); }

void ScriptAttributes::Slot::put(const at::Tensor& tensor) const {
  if (entry)
    attribute().toTensorList().set(*entry, tensor);
  else
    owner->setSlot(index, tensor);
}

bool ScriptAttributes::Constant::unchanged() const {
  const c10::IValue& now = slot.attribute();
  if (!value.isTensor() && !value.isTensorList()) return now.is(value) || now == value;
  const std::vector<at::Tensor> present = tensors_of(now);
  return now.is(value) &&
         std::ranges::equal(present, tensors, [](const auto& a, const auto& b) { return a.is_same(b); }) &&
         std::ranges::equal(present, versions, {}, version_of);
}

ScriptAttributes::ScriptAttributes(const torch::jit::Module& module) {
  std::vector<std::pair<std::string, Slot>> slots;
  for (const auto& layer : module.named_modules()) {
    const c10::intrusive_ptr<c10::ivalue::Object> owner = layer.value._ivalue();
    for (std::size_t i = 0; i < owner->type()->numAttributes(); ++i) {
      const std::string name = owner->type()->getAttributeName(i);
      slots.emplace_back(layer.name.empty() ? name : layer.name + "." + name, Slot{owner, i});
    }
  }
  for (const auto& [path, slot] : slots)
    if (slot.owner->type()->is_parameter(slot.index) && slot.attribute().isTensor()) add_parameter(path, slot);
  // A recurrent layer keeps its parameters in a list as well, and computes with that.
  for (const auto& [path, slot] : slots) add_entries(slot);
  for (const auto& [path, slot] : slots) add_constant(path, slot);

  std::vector<Parameter> in_leaf_order;
  for (const std::string& path : trained().paths())
    in_leaf_order.push_back(*std::ranges::find(trained_, path, &Parameter::path));
  trained_ = std::move(in_leaf_order);
}

ScriptAttributes::Parameter* ScriptAttributes::find_trained(const at::Tensor& tensor) {
  const auto known =
      std::ranges::find_if(trained_, [&](const Parameter& parameter) { return parameter.tensor.is_same(tensor); });
  return known == trained_.end() ? nullptr : &*known;
}

void ScriptAttributes::add_parameter(const std::string& path, const Slot& slot) {
  const at::Tensor& tensor = slot.attribute().toTensor();
  if (!tensor.requires_grad()) {
    const auto same = [&](const auto& known) { return known.second.is_same(tensor); };
    if (std::ranges::none_of(frozen_, same)) frozen_.emplace_back(path, tensor);
  } else if (Parameter* known = find_trained(tensor)) {
    known->slots.push_back(slot);
  } else {
    trained_.push_back({path, tensor, {slot}});
  }
}

void ScriptAttributes::add_entries(const Slot& slot) {
  if (!slot.attribute().isTensorList()) return;
  const std::vector<at::Tensor> tensors = slot.attribute().toTensorVector();
  for (std::size_t entry = 0; entry < tensors.size(); ++entry)
    if (Parameter* known = find_trained(tensors[entry])) known->slots.push_back({slot.owner, slot.index, entry});
}

void ScriptAttributes::add_constant(const std::string& path, const Slot& slot) {
  const c10::IValue& value = slot.attribute();
  if (value.isModule() || (value.isTensor() && find_trained(value.toTensor()))) return;
  const bool of_tensors = value.isTensor() || value.isTensorList();
  if (!of_tensors && is_container(value) && holds_tensors(value))
    throw UsageError("attribute '" + path + "' of the model holds tensors in a tuple or dictionary",
                     "a value made from private examples could stay in it",
                     "register them as buffers or parameters of their own");
  Constant constant{path, slot, !of_tensors && is_container(value) ? value.deepcopy() : value, tensors_of(value), {}};
  for (const at::Tensor& tensor : constant.tensors) constant.versions.push_back(version_of(tensor));
  constants_.push_back(std::move(constant));
}

PyTree ScriptAttributes::trained() const {
  std::vector<std::pair<std::string, at::Tensor>> leaves;
  for (const Parameter& parameter : trained_) leaves.emplace_back(parameter.path, parameter.tensor.detach());
  return PyTree::from_paths(leaves);
}

PyTree ScriptAttributes::frozen() const { return PyTree::from_paths(frozen_); }

void ScriptAttributes::check_constants() const {
  for (const Constant& constant : constants_) {
    if (constant.unchanged()) continue;
    constant.slot.owner->setSlot(constant.slot.index, constant.value);
    throw UsageError("the model changed its attribute '" + constant.path + "'",
                     "a value computed from private examples would outlive the step",
                     "use a layer without running statistics, or call eval() before saving");
  }
}

ScriptAttributes::Bound::Bound(const ScriptAttributes& attributes, std::span<const at::Tensor> leaves)
    : attributes_(attributes) {
  for (std::size_t i = 0; i < leaves.size(); ++i)
    for (const Slot& slot : attributes_.trained_[i].slots) slot.put(leaves[i]);
}

ScriptAttributes::Bound::~Bound() {
  for (const Parameter& parameter : attributes_.trained_)
    for (const Slot& slot : parameter.slots) slot.put(parameter.tensor);
}

}  // namespace ripieno
