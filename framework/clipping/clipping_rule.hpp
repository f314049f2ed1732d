#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ripieno {

/// By what factor one example's gradient is scaled before it is summed. The leaves of the parameters are in groups,
/// each with a bound C of its own; the usual rule has one group. With the norm |g| over a group's leaves the factor is
///
///     min(1, C / |g|)       or, for automatic clipping,       C / (|g| + gamma)
///
/// The second (AUTO-S; Bu et al., "Automatic Clipping", 2023) brings every example near the bound and has no threshold
/// to tune. Either way a group's contribution has a norm of at most C.
class ClippingRule {
 public:
  /// One bound for all leaves.
  ClippingRule(double clipping_norm);  // NOLINT(google-explicit-constructor): a number is the usual rule
  /// Leaf i is in group group_of_leaf[i], whose bound is clipping_norms[that].
  ClippingRule(std::vector<double> clipping_norms, std::vector<std::size_t> group_of_leaf);
  /// The same bounds for automatic clipping.
  [[nodiscard]] ClippingRule automatic(double gamma) const;

  [[nodiscard]] std::size_t num_groups() const noexcept { return clipping_norms_.size(); }
  [[nodiscard]] double clipping_norm(std::size_t group) const { return clipping_norms_[group]; }
  [[nodiscard]] std::size_t group_of(std::size_t leaf) const {
    return group_of_leaf_.empty() ? 0 : group_of_leaf_[leaf];
  }
  /// Set for automatic clipping.
  [[nodiscard]] std::optional<double> gamma() const noexcept { return gamma_; }
  /// Bound on the norm over all leaves: the root of the sum of the groups' squares, rounded up.
  [[nodiscard]] double max_norm() const;

  /// UsageError naming clipping_norm or gamma unless all are finite and positive, and unless there is a group for each
  /// of `num_leaves` leaves.
  void check(std::size_t num_leaves) const;

 private:
  std::vector<double> clipping_norms_;
  std::vector<std::size_t> group_of_leaf_;  // empty: all in group 0
  std::optional<double> gamma_;
};

}  // namespace ripieno
