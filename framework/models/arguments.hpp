#pragma once

#include <cstdint>
#include <ripieno/framework/models/model.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno::models {

/// The arguments of one model by name. Every error is a UsageError that names the model, what it takes and the nearest
/// of that.
class Arguments {
 public:
  /// UsageError when the spec has an argument that is not in `known`.
  Arguments(const ModelSpec& spec, const std::vector<std::string>& known);

  /// The value of an argument that takes one of `choices`, the first of which is the default.
  [[nodiscard]] std::string choice(std::string_view name, const std::vector<std::string>& choices) const;
  [[nodiscard]] bool flag(std::string_view name, bool default_value) const;
  /// A positive whole number.
  [[nodiscard]] std::int64_t size(std::string_view name, std::int64_t default_value) const;
  /// Positive whole numbers separated by commas.
  [[nodiscard]] std::vector<std::int64_t> sizes(std::string_view name, const std::string& default_value) const;

 private:
  [[nodiscard]] std::string value(std::string_view name, const std::string& default_value) const;

  const ModelSpec& spec_;
};

}  // namespace ripieno::models
