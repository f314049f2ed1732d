#pragma once

#include <map>
#include <ripieno/framework/core/pytree.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ripieno {

/// One positive number for each group of leaves: bounds on norms, or standard deviations.
///
/// Groups have names and are ordered by them; every leaf, known by its dotted path, is in one of them. The arithmetic
/// is scaling by a public number, and the product with figures of the same groups.
class PerGroup {
 public:
  /// `group_of_path`: dotted path of each leaf -> name of its group. UsageError when there is no leaf, a value is not
  /// finite and positive, or a group lacks a value or a leaf.
  PerGroup(std::map<std::string, std::string> group_of_path, std::map<std::string, double> values);

  [[nodiscard]] const std::map<std::string, std::string>& group_of_path() const noexcept { return group_of_path_; }
  [[nodiscard]] const std::map<std::string, double>& values() const noexcept { return values_; }
  [[nodiscard]] std::size_t num_groups() const noexcept { return values_.size(); }
  /// The value for a leaf. UsageError when there is no such path.
  [[nodiscard]] double at(const std::string& path) const;

  /// Values in the order of the names, and for each leaf of `tree` the place of its group among them. UsageError,
  /// naming the difference, unless the paths of the tree are exactly those of the groups.
  [[nodiscard]] std::vector<double> ordered_values() const;
  [[nodiscard]] std::vector<std::size_t> group_of_leaves(const PyTree& tree) const;
  /// The same groups with other values, in the order of the names.
  [[nodiscard]] PerGroup with_values(const std::vector<double>& values) const;

  /// The bound that the groups' bounds amount to over all leaves: root of the sum of squares, rounded up.
  [[nodiscard]] double effective() const;
  [[nodiscard]] double sum() const;

  /// UsageError when the factor is not finite and positive.
  friend PerGroup operator*(const PerGroup& x, double factor);
  friend PerGroup operator*(double factor, const PerGroup& x) { return x * factor; }
  friend PerGroup operator/(const PerGroup& x, double divisor);
  /// Group by group; UsageError unless the leaves are grouped alike.
  friend PerGroup operator*(const PerGroup& a, const PerGroup& b);
  friend bool operator==(const PerGroup&, const PerGroup&) = default;

 private:
  std::map<std::string, std::string> group_of_path_;
  std::map<std::string, double> values_;
};

PerGroup operator*(const PerGroup& x, double factor);
PerGroup operator/(const PerGroup& x, double divisor);
PerGroup operator*(const PerGroup& a, const PerGroup& b);

struct PerGroupOptions {
  /// Value of leaves that no pattern matches, which form a group named "fallback"; 0 makes them an error.
  double fallback = 0;
  /// Whether a pattern may match nothing.
  bool allow_unused = false;
};

/// per_group(params, {{"conv", 0.5}, {"head", 1.0}}): groups named by their patterns, each a substring of the dotted
/// paths of its leaves. UsageError, naming leaf or pattern, for a leaf that none matches (unless there is a fallback)
/// or several do, a pattern that is empty, given twice or matches nothing, and values that are not finite and positive.
[[nodiscard]] PerGroup per_group(const PyTree& params, const std::vector<std::pair<std::string, double>>& patterns,
                                 PerGroupOptions options = {});

/// One group a layer: leaves whose paths differ in the last component only. All have the bound
/// total / sqrt(number of layers), so that a whole contribution is bounded by `total`.
[[nodiscard]] PerGroup per_layer(const PyTree& params, double total);

}  // namespace ripieno
