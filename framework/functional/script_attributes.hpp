#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <ripieno/framework/core/pytree.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace ripieno {

/// The attributes of a TorchScript module and its layers: trained parameters, which other tensors can stand in for, and
/// all the rest, which must stay as it is.
class ScriptAttributes {
 public:
  /// UsageError for an attribute that holds tensors in a dictionary or tuple: whether a call changed it could not be
  /// told.
  explicit ScriptAttributes(const torch::jit::Module& module);

  /// Parameters that require gradients, and those that do not, by dotted names, detached. A tensor under several names
  /// appears once, under the first.
  [[nodiscard]] PyTree trained() const;
  [[nodiscard]] PyTree frozen() const;

  /// UsageError naming an attribute that differs from what it was at construction, which is put back: it would carry a
  /// value made from private examples out of the step.
  void check_constants() const;

  /// Puts leaves, in the order of trained(), into the module; the destructor puts its own tensors back.
  class Bound {
   public:
    Bound(const ScriptAttributes& attributes, std::span<const at::Tensor> leaves);
    ~Bound();
    Bound(const Bound&) = delete;
    Bound& operator=(const Bound&) = delete;

   private:
    const ScriptAttributes& attributes_;
  };

 private:
  /// An attribute of a layer, or an entry of the list that it is.
  struct Slot {
    c10::intrusive_ptr<c10::ivalue::Object> owner;
    std::size_t index;
    std::optional<std::size_t> entry = {};

    [[nodiscard]] const c10::IValue& attribute() const;
    void put(const at::Tensor& tensor) const;
  };
  struct Parameter {
    std::string path;
    at::Tensor tensor;
    std::vector<Slot> slots;
  };
  /// What an attribute was: a tensor, a list of them, or anything else as `value`.
  struct Constant {
    std::string path;
    Slot slot;
    c10::IValue value;
    std::vector<at::Tensor> tensors;
    std::vector<std::int64_t> versions;

    [[nodiscard]] bool unchanged() const;
  };

  void add_parameter(const std::string& path, const Slot& slot);
  void add_entries(const Slot& slot);
  void add_constant(const std::string& path, const Slot& slot);
  [[nodiscard]] Parameter* find_trained(const at::Tensor& tensor);

  std::vector<Parameter> trained_;
  std::vector<std::pair<std::string, at::Tensor>> frozen_;
  std::vector<Constant> constants_;
};

}  // namespace ripieno
