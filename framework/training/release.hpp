#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/comm/collective_thread.hpp>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/core/pytree.hpp>

namespace ripieno {

struct StepParts;

/// Where the time of sums and noise went; for the operator, as it is one rank's own.
struct OverlapTimes {
  double sum_s = 0;    ///< inside collectives
  double noise_s = 0;  ///< making and adding noise
  double wall_s = 0;   ///< of both together

  /// The share of the shorter of the two that the other one hid: 0 when one follows the other, 1 at best.
  [[nodiscard]] double hidden_fraction() const;
};

/// How a step's gradient goes from the ranks' sums to one noised tree.
struct ReleaseOptions {
  /// Elements that travel in one collective; 0 sends all at once. With several, `thread` sends one bucket while noise
  /// is added to the one before it.
  std::int64_t bucket_size = 0;
  CollectiveThread* thread = nullptr;
  /// Rank 0 makes the noise and broadcasts the noised sum, in place of every rank making the same bits.
  bool noise_from_rank0 = false;
  OverlapTimes* times = nullptr;  ///< added to, where it is given
};

/// Collective. Sums the flat clipped sums of all ranks, int64 on a lattice or floating point, to which each example
/// contributed at most `max_norm`, and adds the noise of `step`, in place. That all ranks mean the same sum was settled
/// by the step's status and the plan's hash. The tree has the structure and dtype of `params`.
///
/// Volume: the numel values in ceil(numel / bucket_size) collectives, and once more where rank 0 makes the noise.
[[nodiscard]] Noised<PyTree> release_gradient(const StepParts& parts, const PyTree& params, const at::Tensor& flat,
                                              double max_norm, std::int64_t step);

}  // namespace ripieno
