#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <ripieno/framework/core/per_group.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <utility>

namespace ripieno {

/// Whose examples a sum runs over.
enum class Extent {
  local,   ///< this rank's
  global,  ///< all ranks'
};

/// A public real number; bool is not one.
template <class S>
concept PublicScalar = (std::integral<S> || std::floating_point<S>)&&!std::same_as<S, bool>;

/// Leaf-wise product and quotient with a public number. UsageError when it is not finite, or zero as a divisor.
[[nodiscard]] PyTree multiplied(const PyTree& tree, double factor);
[[nodiscard]] PyTree divided(const PyTree& tree, double divisor);
[[nodiscard]] at::Tensor multiplied(const at::Tensor& tensor, double factor);
[[nodiscard]] at::Tensor divided(const at::Tensor& tensor, double divisor);

namespace detail {
inline double magnitude(double s) noexcept { return s < 0 ? -s : s; }

/// f applied where there is a value.
template <class F>
std::optional<PerGroup> map(const std::optional<PerGroup>& figures, F f) {
  if (!figures) return std::nullopt;
  return f(*figures);
}

/// The value, or UsageError naming `field` when it is negative or not finite.
double checked_metadata(double value, const char* field);
}  // namespace detail

/// A sum of clipped per-example contributions that has not been noised: private, not for release.
///
/// `max_norm` bounds what one example can add to the sum (L2 norm over the whole tree). The only arithmetic is scaling
/// by a public number, which scales the bound with it; sums, differences and powers do not compile, because no bound
/// would be known for their result. Only a noise function turns it into a Noised.
///
/// Where groups of leaves were clipped apart, `group_norms` holds their bounds and `max_norm` what these amount to
/// together. Such a sum cannot be scaled by zero.
template <class T>
class Clipped {
 public:
  /// UsageError when max_norm is negative or not finite.
  Clipped(T tree, double max_norm, Extent extent)
      : tree_(std::move(tree)), max_norm_(detail::checked_metadata(max_norm, "max_norm")), extent_(extent) {}

  Clipped(T tree, PerGroup group_norms, Extent extent)
      : tree_(std::move(tree)),
        max_norm_(detail::checked_metadata(group_norms.effective(), "max_norm")),
        group_norms_(std::move(group_norms)),
        extent_(extent) {}

  [[nodiscard]] const T& tree() const noexcept { return tree_; }
  [[nodiscard]] double max_norm() const noexcept { return max_norm_; }
  [[nodiscard]] const std::optional<PerGroup>& group_norms() const noexcept { return group_norms_; }
  [[nodiscard]] Extent extent() const noexcept { return extent_; }
  /// The same bounds for a sum over other examples.
  [[nodiscard]] Clipped with_tree(T tree, Extent extent) const {
    Clipped other = *this;
    other.tree_ = std::move(tree);
    other.extent_ = extent;
    return other;
  }

  template <PublicScalar S>
  friend Clipped operator*(const Clipped& x, S s) {
    const auto factor = static_cast<double>(s);
    return x.rescaled(multiplied(x.tree_, factor),
                      [m = detail::magnitude(factor)](const auto& figure) { return figure * m; });
  }
  template <PublicScalar S>
  friend Clipped operator*(S s, const Clipped& x) {
    return x * s;
  }
  template <PublicScalar S>
  friend Clipped operator/(const Clipped& x, S s) {
    const auto divisor = static_cast<double>(s);
    return x.rescaled(divided(x.tree_, divisor),
                      [m = detail::magnitude(divisor)](const auto& figure) { return figure / m; });
  }
  friend Clipped operator-(const Clipped& x) { return x * -1; }

 private:
  template <class Scale>
  Clipped rescaled(T tree, Scale scale) const {
    Clipped scaled(std::move(tree), scale(max_norm_), extent_);
    scaled.group_norms_ = detail::map(group_norms_, scale);
    return scaled;
  }

  T tree_;
  double max_norm_;
  std::optional<PerGroup> group_norms_;
  Extent extent_;
};

/// A noised sum: safe to release. `max_norm` is still the bound of one example before the noise; `noise_stddev` the
/// standard deviation of the noise in each element, empty where it cannot be known or differs between leaves, in which
/// case `group_stddevs` may hold it; `key_fingerprint` names the noise key without revealing it. Scaling by a public
/// number scales both figures. It is no Clipped, so noise twice does not compile.
template <class T>
class Noised {
 public:
  /// UsageError when max_norm or noise_stddev is negative or not finite.
  Noised(T tree, double max_norm, std::optional<double> noise_stddev, std::uint64_t key_fingerprint, Extent extent)
      : tree_(std::move(tree)),
        max_norm_(detail::checked_metadata(max_norm, "max_norm")),
        noise_stddev_(noise_stddev),
        key_fingerprint_(key_fingerprint),
        extent_(extent) {
    if (noise_stddev) detail::checked_metadata(*noise_stddev, "noise_stddev");
  }
  /// The noise on a sum of groups that were clipped apart, with a deviation for each of them.
  Noised(T tree, const Clipped<T>& before, PerGroup group_stddevs, std::uint64_t key_fingerprint)
      : Noised(std::move(tree), before.max_norm(), std::nullopt, key_fingerprint, before.extent()) {
    group_norms_ = before.group_norms();
    group_stddevs_ = std::move(group_stddevs);
  }

  [[nodiscard]] const T& tree() const noexcept { return tree_; }
  [[nodiscard]] double max_norm() const noexcept { return max_norm_; }
  [[nodiscard]] std::optional<double> noise_stddev() const noexcept { return noise_stddev_; }
  [[nodiscard]] const std::optional<PerGroup>& group_norms() const noexcept { return group_norms_; }
  [[nodiscard]] const std::optional<PerGroup>& group_stddevs() const noexcept { return group_stddevs_; }
  [[nodiscard]] std::uint64_t key_fingerprint() const noexcept { return key_fingerprint_; }
  [[nodiscard]] Extent extent() const noexcept { return extent_; }

  template <PublicScalar S>
  friend Noised operator*(const Noised& x, S s) {
    const auto factor = static_cast<double>(s);
    return x.rescaled(multiplied(x.tree_, factor),
                      [m = detail::magnitude(factor)](const auto& figure) { return figure * m; });
  }
  template <PublicScalar S>
  friend Noised operator*(S s, const Noised& x) {
    return x * s;
  }
  template <PublicScalar S>
  friend Noised operator/(const Noised& x, S s) {
    const auto divisor = static_cast<double>(s);
    return x.rescaled(divided(x.tree_, divisor),
                      [m = detail::magnitude(divisor)](const auto& figure) { return figure / m; });
  }
  friend Noised operator-(const Noised& x) { return x * -1; }

 private:
  template <class Scale>
  Noised rescaled(T tree, Scale scale) const {
    std::optional<double> stddev = noise_stddev_;
    if (stddev) stddev = scale(*stddev);
    Noised scaled(std::move(tree), scale(max_norm_), stddev, key_fingerprint_, extent_);
    scaled.group_norms_ = detail::map(group_norms_, scale);
    scaled.group_stddevs_ = detail::map(group_stddevs_, scale);
    return scaled;
  }

  T tree_;
  double max_norm_;
  std::optional<double> noise_stddev_;
  std::optional<PerGroup> group_norms_, group_stddevs_;
  std::uint64_t key_fingerprint_;
  Extent extent_;
};

/// Two sums over the same examples: of clipped gradients, and of their squares element by element. Released together.
template <class T>
struct ClippedPair {
  Clipped<T> first;
  Clipped<T> second;
};
template <class T>
struct NoisedPair {
  Noised<T> first;
  Noised<T> second;
};

}  // namespace ripieno
