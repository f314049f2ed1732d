#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/noise/mf_gaussian_noise.hpp>
#include <ripieno/framework/optim/functional_optimizer.hpp>
#include <span>
#include <vector>

namespace ripieno {

/// Which elements of the flat parameters each rank owns where state is sharded (Rajbhandari et al., 2020, "ZeRO", stage
/// 1, and the noise): consecutive parts, one a rank, as equal as whole blocks of noise allow.
class StateSlices {
 public:
  /// UsageError for more parameters than one collective can count.
  StateSlices(std::int64_t num_parameters, int rank, int world_size);

  [[nodiscard]] std::int64_t begin() const { return begin_; }
  [[nodiscard]] std::int64_t size() const { return sizes_[rank_]; }
  [[nodiscard]] const std::vector<std::int64_t>& sizes() const { return sizes_; }
  /// Of all slices together.
  [[nodiscard]] std::int64_t num_parameters() const;
  /// This rank's part of a flat tensor; shares its memory.
  [[nodiscard]] at::Tensor of(const at::Tensor& flat) const;

 private:
  std::size_t rank_;
  std::int64_t begin_ = 0;
  std::vector<std::int64_t> sizes_;
};

/// Collective. Brings every rank's slice of `flat`, contiguous float32 or float64 on the CPU, to every rank, in place.
void gather_slices(const Communicator& communicator, const StateSlices& slices, const at::Tensor& flat);

/// The same parameters in one flat buffer, which a sharded step updates.
[[nodiscard]] PyTree in_one_buffer(const PyTree& params);

/// Collective. This rank's part of the optimizer's state: of `whole`, which rank 0 holds as a checkpoint gave it, or,
/// where no step was made, what init makes. Arrays travel one by one.
[[nodiscard]] optim::OptimizerState scattered(const Communicator& communicator, const StateSlices& slices,
                                              const optim::FunctionalOptimizer& optimizer, const PyTree& params,
                                              optim::OptimizerState whole);

/// Collective. The same of what correlated noise keeps, zeros before the first step.
[[nodiscard]] MFNoiseState scattered(const Communicator& communicator, const StateSlices& slices, MFNoiseState whole);

/// Collective. The inverse, on rank 0: arrays like `params`, as a run without sharding has them. The other ranks get
/// none.
[[nodiscard]] optim::OptimizerState gathered(const Communicator& communicator, const StateSlices& slices,
                                             const PyTree& params, const optim::OptimizerState& part);
[[nodiscard]] MFNoiseState gathered(const Communicator& communicator, const StateSlices& slices,
                                    const MFNoiseState& part);

/// Collective. The parameters to evaluate and publish, whole on every rank.
[[nodiscard]] PyTree gathered_published(const Communicator& communicator, const StateSlices& slices,
                                        const optim::FunctionalOptimizer& optimizer, const PyTree& params,
                                        const optim::OptimizerState& part);

}  // namespace ripieno
