#pragma once

#include <cstdint>
#include <ripieno/accounting/engine/composition.hpp>
#include <ripieno/accounting/engine/pair_composition.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno::accounting {

class GaussianMechanism;

/// What was released, as an expression: `poisson(gaussian(1.1), 0.01) * 1000 | gaussian(4.0)`. Immutable.
///
/// All guarantees are for add/remove adjacency, the worse of both directions. Order and grouping do not matter: equal
/// mechanisms merge, and any two ways to write one composition give the same numbers, bit for bit.
class Process {
 public:
  /// Nothing released: epsilon 0.
  Process() = default;
  explicit Process(std::span<const SubsampledGaussian> mechanisms);
  /// `times` independent releases that a pair dominates, whatever they are.
  explicit Process(DominatingPair pair, std::int64_t times = 1);

  /// Epsilon at delta, certified; publish `.upper`. UsageError unless 0 <= delta < 1.
  [[nodiscard]] Interval epsilon_at(double delta) const;
  /// Delta at epsilon, certified. UsageError unless 0 <= epsilon < inf.
  [[nodiscard]] Interval delta_at(double epsilon) const;
  /// How epsilon_at comes by its result at this delta, in words.
  [[nodiscard]] std::string method(double delta) const;
  /// The Renyi bound at the best real order, to stand beside epsilon_at; +inf where it is not known, which is wherever
  /// something else than sampled Gaussians was released.
  [[nodiscard]] double epsilon_rdp(double delta) const;

  /// The least false negative rate of any membership test whose false positive rate is `alpha`, in [0, 1], certified:
  /// the trade-off curve of Dong, Roth & Su 2022, from the larger delta of both directions and so symmetric. Publish
  /// `.lower`.
  [[nodiscard]] Interval beta_at(double alpha) const;
  /// The most that true positive rate and false positive rate of a membership test may differ by: delta at epsilon 0.
  [[nodiscard]] Interval advantage() const { return delta_at(0); }

  /// Distinct sampled Gaussians, sorted, with the number of steps of each.
  [[nodiscard]] const std::vector<SubsampledGaussian>& mechanisms() const { return mechanisms_; }
  /// Everything else, likewise.
  [[nodiscard]] const std::vector<PairSteps>& pairs() const { return pairs_; }
  /// Releases in total; what has no noise or no example counts too.
  [[nodiscard]] std::int64_t steps() const;
  /// Number of distinct mechanisms.
  [[nodiscard]] std::size_t segments() const { return mechanisms_.size() + pairs_.size(); }

  friend Process operator*(const Process& process, std::int64_t times);
  friend Process operator|(const Process& a, const Process& b);
  friend bool operator==(const Process&, const Process&) = default;

 private:
  Process(std::span<const SubsampledGaussian> mechanisms, std::vector<PairSteps> pairs);
  // Everything as pairs.
  [[nodiscard]] std::vector<PairSteps> as_pairs() const;

  std::vector<SubsampledGaussian> mechanisms_;
  std::vector<PairSteps> pairs_;
};

/// One release of a Gaussian sum over all examples. A type of its own, since only this can be subsampled: subsampling a
/// composition or a subsampled mechanism again is another mechanism, and does not compile.
class GaussianMechanism : public Process {
 public:
  explicit GaussianMechanism(double noise_multiplier);
  [[nodiscard]] double noise_multiplier() const { return noise_multiplier_; }

 private:
  double noise_multiplier_;
};

/// `noise_multiplier` is the noise deviation over the sensitivity of the sum. UsageError unless finite and >= 0.
[[nodiscard]] GaussianMechanism gaussian(double noise_multiplier);
/// The mechanism on a Poisson sample: each example is in it with chance `sample_rate`, independently.
[[nodiscard]] Process poisson(const GaussianMechanism& mechanism, double sample_rate);
Process poisson(const Process&, double) = delete;

/// `times` independent releases. UsageError when negative or when the total reaches 2^53.
[[nodiscard]] Process operator*(const Process& process, std::int64_t times);
/// Both releases, on the same data.
[[nodiscard]] Process operator|(const Process& a, const Process& b);

}  // namespace ripieno::accounting
