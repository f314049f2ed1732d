#pragma once

#include <cstdint>
#include <optional>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/ledger/clipping_plan.hpp>
#include <ripieno/accounting/ledger/pairing.hpp>
#include <ripieno/accounting/ledger/rounding.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno {

/// What a training run promises to do; input of `PrivacyPlan`.
struct PlanOptions {
  std::int64_t num_examples = 0;
  std::string dataset_id;
  double expected_batch = 0;       ///< need not be an integer; the sample rate is expected_batch / num_examples
  std::int64_t steps = 0;          ///< noisy releases that are planned
  std::int64_t reserve_steps = 0;  ///< further ones that steps lost in a crash may use
  double noise_multiplier = 0;     ///< of the whole step, as the accountant sees it; 0 means no privacy
  double clipping_norm = 0;        ///< of the first step, where clipping is adaptive
  double delta = 0;
  std::int64_t max_microbatch = 256;
  int world_size = 1;
  Reduction reduction = Reduction::fast;
  std::int64_t num_parameters = 0;       ///< of the model; for a reproducible reduction only
  bool secure_seed = true;               ///< false: the noise can be recomputed by others, so nothing is private
  std::string adjacency = "add-remove";  ///< must be the sampler's
  SamplerPlan sampler = {};
  std::optional<accounting::Strategy> strategy = {};  ///< of correlated noise; none for independent noise
  ClippingKind clipping = ClippingKind::fixed;
  AdaptivePlan adaptive = {};  ///< counts where clipping is adaptive
};

/// The one contract that sampler, clipper, noiser and ledger read (invariant P12). Immutable; constructing it validates
/// every field and proves `rho` (see rounding.hpp). Equal options give an equal plan and hash on every rank.
class PrivacyPlan {
 public:
  /// UsageError names the field that makes no sense.
  explicit PrivacyPlan(PlanOptions options);

  [[nodiscard]] const PlanOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::int64_t num_examples() const noexcept { return options_.num_examples; }
  [[nodiscard]] const std::string& dataset_id() const noexcept { return options_.dataset_id; }
  [[nodiscard]] double expected_batch() const noexcept { return options_.expected_batch; }
  /// Exactly the double expected_batch / num_examples.
  [[nodiscard]] double sample_rate() const noexcept;
  [[nodiscard]] std::int64_t steps() const noexcept { return options_.steps; }
  /// A ledger under this plan holds at most this many step records: steps + reserve_steps.
  [[nodiscard]] std::int64_t max_records() const noexcept { return options_.steps + options_.reserve_steps; }
  [[nodiscard]] double noise_multiplier() const noexcept { return options_.noise_multiplier; }
  [[nodiscard]] double clipping_norm() const noexcept { return options_.clipping_norm; }
  /// Noise and sampler: what decides on the accounting.
  [[nodiscard]] Pairing pairing() const;
  /// Whether only whole runs under one participation pattern can be accounted for (correlated noise, and samplers whose
  /// steps depend on one another): a resume keeps the pattern, and no step is held in reserve.
  [[nodiscard]] bool has_pattern() const { return pairing().has_pattern(); }
  [[nodiscard]] ClippingKind clipping() const noexcept { return options_.clipping; }
  /// Set where clipping is adaptive.
  [[nodiscard]] std::optional<AdaptivePlan> adaptive() const;
  /// The multiplier of the noise on gradients. Where clipping is adaptive it is larger than noise_multiplier, so that
  /// gradients and noisy count together cost that much (Andrew et al. 2021).
  [[nodiscard]] double gradient_noise_multiplier() const;
  [[nodiscard]] double delta() const noexcept { return options_.delta; }
  [[nodiscard]] int world_size() const noexcept { return options_.world_size; }
  [[nodiscard]] Reduction reduction() const noexcept { return options_.reduction; }
  [[nodiscard]] bool reproducible() const noexcept { return options_.reduction == Reduction::reproducible; }
  [[nodiscard]] bool secure_seed() const noexcept { return options_.secure_seed; }
  [[nodiscard]] const std::string& adjacency() const noexcept { return options_.adjacency; }

  /// Bound on what rounding adds to the sensitivity of the summed gradient, in clipping norms.
  [[nodiscard]] double rho() const noexcept { return rho_; }
  /// Standard deviation of the noise on the sum: gradient_noise_multiplier * clipping_norm * (1 + rho). Where clipping
  /// is adaptive, `noise_stddev(norm)` of a later step has its norm in place of clipping_norm.
  [[nodiscard]] double noise_stddev() const { return noise_stddev(options_.clipping_norm); }
  /// Under correlated noise: of the white noise that it is made of.
  [[nodiscard]] double noise_stddev(double clipping_norm) const;
  /// Microbatches are cut inside blocks [b * block_size, (b + 1) * block_size) of the global ids.
  [[nodiscard]] std::int64_t block_size() const noexcept { return layout_.block_size; }
  /// Most examples in one microbatch.
  [[nodiscard]] std::int64_t microbatch() const noexcept { return layout_.microbatch; }
  /// Examples that one step's draw has at most, but for `rounding_tail`.
  [[nodiscard]] std::int64_t max_draw() const noexcept { return layout_.max_draw; }
  /// Whether sums travel and are released in float64.
  [[nodiscard]] bool wide_wire() const noexcept { return layout_.wide_wire; }
  /// Sums of a reproducible plan are whole multiples of this power of two; 0 in a fast one. It depends on the step's
  /// clipping norm where clipping is adaptive.
  [[nodiscard]] double lattice_step(double clipping_norm) const;
  /// Probability, over all records together, that `rho` does not hold. Adds (1 + e^epsilon) of itself to delta.
  [[nodiscard]] double rounding_tail() const noexcept { return rounding_tail_; }
  /// The share of `rounding_tail` of `records` step records.
  [[nodiscard]] double rounding_tail(std::int64_t records) const noexcept;
  /// Sentences for the user: where rounding made the plan depart from what was asked. Not part of the hash.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

  /// Borders of the microbatches of one rank's draw: 0 = cuts.front() <= ... <= cuts.back() = ids.size(), each inside
  /// one block, a block of more than `microbatch` cut further. UsageError unless `ids` ascend inside [0, num_examples).
  [[nodiscard]] std::vector<std::int64_t> microbatch_cuts(std::span<const std::int64_t> ids) const;

  /// 64 hexadecimal digits: SHA-256 of the canonical JSON text.
  [[nodiscard]] const std::string& hash() const noexcept { return hash_; }
  /// Every field; doubles read back bit for bit. A reproducible plan is the same contract for any number of ranks, and
  /// says 1.
  [[nodiscard]] Json to_json() const;
  /// DataError names `where` and the key for a missing, unknown or contradictory field, and for a rho or tail below
  /// what the recorded layout needs.
  [[nodiscard]] static PrivacyPlan from_json(const Json& json, const std::string& where = "plan");

  friend bool operator==(const PrivacyPlan& a, const PrivacyPlan& b) noexcept { return a.hash_ == b.hash_; }

 private:
  PrivacyPlan(PlanOptions options, const SumLayout& layout, double rho, double tail);
  void seal();

  PlanOptions options_;
  SumLayout layout_;
  double rho_ = 0;
  double rounding_tail_ = 0;
  std::vector<std::string> notes_;
  std::string hash_;
};

/// "clipping_norm 1 became 2" for every field in which `after` is another contract than `before`. World size and what
/// follows from it alone (layout, rho) are not compared: a run may resume on another number of ranks.
[[nodiscard]] std::vector<std::string> plan_differences(const PrivacyPlan& before, const PrivacyPlan& after);

}  // namespace ripieno
