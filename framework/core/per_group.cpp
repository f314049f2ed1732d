#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/core/per_group.hpp>
#include <set>

namespace ripieno {
namespace {

constexpr const char* k_fallback = "fallback";

void check_value(const std::string& group, double value) {
  if (std::isfinite(value) && value > 0) return;
  throw UsageError("the value of group '" + group + "' cannot be " + format_double(value),
                   "it must be finite and positive");
}

double checked_factor(double factor) {
  if (std::isfinite(factor) && factor > 0) return factor;
  throw UsageError("figures of groups cannot be scaled by " + format_double(factor),
                   "the factor must be finite and positive");
}

/// The one pattern that is part of `path`; the fallback's name where none is.
std::string group_of(const std::string& path, const std::map<std::string, double>& values, bool has_fallback) {
  std::string found;
  for (const auto& [pattern, value] : values) {
    if (path.find(pattern) == std::string::npos) continue;
    if (!found.empty())
      throw UsageError("leaf '" + path + "' matches the patterns '" + found + "' and '" + pattern + "'",
                       "each leaf has one bound");
    found = pattern;
  }
  if (!found.empty()) return found;
  if (!has_fallback)
    throw UsageError("leaf '" + path + "' matches no pattern", {}, "add a pattern for it, or set .fallback");
  return k_fallback;
}

}  // namespace

PerGroup::PerGroup(std::map<std::string, std::string> group_of_path, std::map<std::string, double> values)
    : group_of_path_(std::move(group_of_path)), values_(std::move(values)) {
  if (group_of_path_.empty()) throw UsageError("there are no leaves to put into groups");
  for (const auto& [name, value] : values_) check_value(name, value);
  std::set<std::string> used;
  for (const auto& [path, name] : group_of_path_) {
    if (!values_.contains(name)) throw UsageError("group '" + name + "' of leaf '" + path + "' has no value");
    used.insert(name);
  }
  for (const auto& [name, value] : values_)
    if (!used.contains(name)) throw UsageError("group '" + name + "' has no leaf");
}

double PerGroup::at(const std::string& path) const {
  const auto found = group_of_path_.find(path);
  if (found == group_of_path_.end()) throw UsageError("leaf '" + path + "' is in no group");
  return values_.at(found->second);
}

std::vector<double> PerGroup::ordered_values() const {
  std::vector<double> ordered;
  for (const auto& [name, value] : values_) ordered.push_back(value);
  return ordered;
}

std::vector<std::size_t> PerGroup::group_of_leaves(const PyTree& tree) const {
  std::map<std::string, std::size_t> place;
  for (const auto& [name, value] : values_) place.emplace(name, place.size());
  std::vector<std::size_t> groups;
  for (const std::string& path : tree.paths()) {
    const auto found = group_of_path_.find(path);
    if (found == group_of_path_.end())
      throw UsageError("leaf '" + path + "' is in no group", "the groups were made for other parameters");
    groups.push_back(place.at(found->second));
  }
  if (groups.size() != group_of_path_.size())
    throw UsageError("the groups hold " + std::to_string(group_of_path_.size()) + " leaves, the parameters " +
                         std::to_string(groups.size()),
                     "the groups were made for other parameters");
  return groups;
}

PerGroup PerGroup::with_values(const std::vector<double>& values) const {
  if (values.size() != values_.size())
    throw UsageError(std::to_string(values.size()) + " values for " + std::to_string(values_.size()) + " groups");
  std::map<std::string, double> named = values_;
  std::size_t i = 0;
  for (auto& [name, value] : named) value = values[i++];
  return {group_of_path_, std::move(named)};
}

double PerGroup::effective() const {
  double norm = 0;
  for (const auto& [name, value] : values_) norm = std::hypot(norm, value);
  return num_groups() == 1 ? norm : norm * (1 + static_cast<double>(num_groups()) * 0x1p-52);
}

double PerGroup::sum() const {
  double sum = 0;
  for (const auto& [name, value] : values_) sum += value;
  return sum;
}

PerGroup operator*(const PerGroup& x, double factor) {
  PerGroup scaled = x;
  for (auto& [name, value] : scaled.values_) value *= checked_factor(factor);
  return {scaled.group_of_path_, scaled.values_};
}

PerGroup operator/(const PerGroup& x, double divisor) {
  PerGroup scaled = x;
  for (auto& [name, value] : scaled.values_) value /= checked_factor(divisor);
  return {scaled.group_of_path_, scaled.values_};
}

PerGroup operator*(const PerGroup& a, const PerGroup& b) {
  if (a.group_of_path_ != b.group_of_path_)
    throw UsageError("figures of different groups cannot be multiplied", "their leaves are not grouped alike");
  PerGroup product = a;
  for (auto& [name, value] : product.values_) value *= b.values_.at(name);
  return {product.group_of_path_, product.values_};
}

PerGroup per_group(const PyTree& params, const std::vector<std::pair<std::string, double>>& patterns,
                   PerGroupOptions options) {
  std::map<std::string, double> values;
  for (const auto& [pattern, value] : patterns) {
    if (pattern.empty()) throw UsageError("a pattern is empty", "it would match every leaf");
    check_value(pattern, value);
    if (!values.emplace(pattern, value).second) throw UsageError("pattern '" + pattern + "' is given twice");
  }
  const bool has_fallback = options.fallback != 0;
  if (has_fallback) check_value(k_fallback, options.fallback);

  std::map<std::string, std::string> group_of_path;
  std::map<std::string, double> used;
  for (const std::string& path : params.paths()) {
    const std::string group = group_of(path, values, has_fallback);
    group_of_path.emplace(path, group);
    const auto value = values.find(group);
    used.emplace(group, value == values.end() ? options.fallback : value->second);
  }
  for (const auto& [pattern, value] : values)
    if (!used.contains(pattern) && !options.allow_unused)
      throw UsageError("pattern '" + pattern + "' matches no leaf", {}, "remove it, or set .allow_unused");
  return {std::move(group_of_path), std::move(used)};
}

PerGroup per_layer(const PyTree& params, double total) {
  std::map<std::string, std::string> group_of_path;
  std::map<std::string, double> values;
  for (const std::string& path : params.paths()) {
    const std::size_t dot = path.rfind('.');
    const std::string layer = dot == std::string::npos ? "" : path.substr(0, dot);
    group_of_path.emplace(path, layer);
    values.emplace(layer, 1.0);
  }
  // Rounded down, so that the bounds together do not exceed the total.
  const double share = total / std::sqrt(static_cast<double>(values.size())) * (1 - 0x1p-51);
  for (auto& [layer, value] : values) value = values.size() == 1 ? total : share;
  return {std::move(group_of_path), std::move(values)};
}

}  // namespace ripieno
