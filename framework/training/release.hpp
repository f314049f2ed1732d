#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <ripieno/framework/comm/collective_thread.hpp>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/noise/prepared_noise.hpp>
#include <ripieno/framework/training/bucketed_sum.hpp>

namespace ripieno {

struct StepParts;

/// Where the time of sums and noise went; for the operator, as it is one rank's own.
struct OverlapTimes {
  double sum_s = 0;     ///< inside collectives, in which ranks also wait for each other
  double waited_s = 0;  ///< of these, while this rank's other threads had nothing to do
  double noise_s = 0;   ///< making and adding noise

  /// The share of the sums behind which this rank computed: 0 with one bucket, 1 at best.
  [[nodiscard]] double hidden_fraction() const;
};

/// How a step's gradient goes from the ranks' sums to one noised tree.
struct ReleaseOptions {
  /// Elements that travel in one collective, and the thread that sends them while this rank computes; without a thread
  /// all travel at once.
  std::int64_t bucket_size = 0;
  CollectiveThread* thread = nullptr;
  /// Rank 0 makes the noise and broadcasts the noised sum, in place of every rank making the same bits.
  bool noise_from_rank0 = false;
  OverlapTimes* times = nullptr;  ///< added to, where it is given

  [[nodiscard]] bool noise_made_by(int rank) const { return !noise_from_rank0 || rank == 0; }
};

/// One step's gradient on its way from the ranks' flat sums, int64 on a lattice or floating point, to which each
/// example contributed at most `max_norm`, to one noised tree of the structure and dtype of `params`:
/// ```
/// GradientRelease release(parts, params, max_norm, step);
/// ... clipped_sum(..., on_final) calls release.advance: buckets leave while the rest is computed
/// release.send_rest();     // also after a failure
/// ... agree_on_step(...);  // no noise is added before
/// Noised<PyTree> noisy = std::move(release).finish(flat);
/// ```
/// That all ranks mean the same sum is settled by the step's status and the plan's hash.
///
/// Volume: the numel values in ceil(numel / bucket_size) collectives, and once more where rank 0 makes the noise.
class GradientRelease {
 public:
  /// The arguments outlive this object.
  GradientRelease(const StepParts& parts, const PyTree& params, double max_norm, std::int64_t step);

  /// Elements [0, size) of this rank's sum are done.
  void advance(const at::Tensor& flat, std::int64_t size);

  /// Collective where there are buckets: returns once all are summed, having made noise meanwhile. A rank that has
  /// failed sends zeros for what it lacks, so that none waits for it in vain.
  void send_rest();

  /// Collective. The sum of `flat` over ranks, if no bucket has brought it, plus the noise of the step, in place. A sum
  /// on a device goes in buckets of its own. The tree is on the device of `params`.
  [[nodiscard]] Noised<PyTree> finish(const at::Tensor& flat) &&;

 private:
  void sum_and_noise(const at::Tensor& flat);
  [[nodiscard]] bool makes_noise() const;
  [[nodiscard]] std::optional<PreparedNoise> prepared_noise() const;
  void add_noise(const at::Tensor& flat);
  [[nodiscard]] PyTree released_tree(const at::Tensor& flat) const;

  const StepParts& parts_;
  const PyTree& params_;
  double max_norm_;
  std::int64_t step_;
  OverlapTimes times_;
  std::optional<BucketedSum> buckets_;
  std::optional<PreparedNoise> noise_;
};

}  // namespace ripieno
