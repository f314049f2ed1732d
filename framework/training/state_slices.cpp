#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/training/state_slices.hpp>
#include <string>
#include <utility>

namespace ripieno {
namespace {

// Noise is made fastest from multiples of so many positions on.
constexpr std::int64_t k_noise_block = 128;
// MPI counts in int.
constexpr std::int64_t k_most_parameters = std::int64_t{1} << 30;

/// Elements of each rank but the last ones.
std::int64_t slice_size(std::int64_t num_parameters, std::int64_t world_size) {
  const std::int64_t share = (num_parameters + world_size - 1) / world_size;
  // Few parameters are shared out evenly rather than in blocks.
  return share < 64 * k_noise_block ? share : (share + k_noise_block - 1) / k_noise_block * k_noise_block;
}

/// Collective. The ranks' parts one behind the other, on every rank.
at::Tensor gathered_flat(const Communicator& communicator, const StateSlices& slices, const at::Tensor& part) {
  at::Tensor flat = at::empty({slices.num_parameters()}, part.options());
  slices.of(flat).copy_(part);
  gather_slices(communicator, slices, flat);
  return flat;
}

/// Collective. Fills `part` with this rank's slice of a flat array that rank 0 has; others may give any tensor.
void scatter_flat(const Communicator& communicator, const StateSlices& slices, const at::Tensor& whole,
                  const at::Tensor& part) {
  const at::Tensor flat =
      communicator.rank() == 0 ? whole.contiguous() : at::empty({slices.num_parameters()}, part.options());
  communicator.broadcast({static_cast<std::byte*>(flat.mutable_data_ptr()), flat.nbytes()}, 0);
  part.copy_(slices.of(flat));
}

}  // namespace

StateSlices::StateSlices(std::int64_t num_parameters, int rank, int world_size)
    : rank_(static_cast<std::size_t>(rank)) {
  if (num_parameters > k_most_parameters) {
    throw UsageError("--shard-state cannot take " + std::to_string(num_parameters) + " parameters",
                     "one collective counts 2^30 at most", "leave it out");
  }
  const std::int64_t size = slice_size(num_parameters, world_size);
  for (std::int64_t begin = 0, r = 0; r < world_size; ++r, begin += size) {
    if (r == rank) begin_ = std::min(begin, num_parameters);
    sizes_.push_back(std::clamp<std::int64_t>(num_parameters - begin, 0, size));
  }
}

std::int64_t StateSlices::num_parameters() const {
  return std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
}

at::Tensor StateSlices::of(const at::Tensor& flat) const { return flat.narrow(0, begin(), size()); }

void gather_slices(const Communicator& communicator, const StateSlices& slices, const at::Tensor& flat) {
  const auto size = static_cast<std::size_t>(flat.numel());
  if (flat.scalar_type() == at::kDouble) {
    communicator.allgather_slices(std::span(flat.mutable_data_ptr<double>(), size), slices.sizes());
  } else {
    communicator.allgather_slices(std::span(flat.mutable_data_ptr<float>(), size), slices.sizes());
  }
}

PyTree in_one_buffer(const PyTree& params) { return unflatten(params, flatten(params).clone()); }

optim::OptimizerState scattered(const Communicator& communicator, const StateSlices& slices,
                                const optim::FunctionalOptimizer& optimizer, const PyTree& params,
                                optim::OptimizerState whole) {
  optim::OptimizerState part = optimizer.init(PyTree(slices.of(flatten(params))));
  part.step = whole.step;
  if (part.step == 0) return part;
  for (auto& [name, tree] : part.slots) {
    scatter_flat(communicator, slices, communicator.rank() == 0 ? flatten(whole.slots.at(name)) : at::Tensor(),
                 tree.tensor());
    whole.slots.erase(name);
  }
  // The noise is the same in all leaves.
  for (double& phi : part.phi) {
    if (communicator.rank() == 0) phi = whole.phi.front();
    communicator.broadcast(std::as_writable_bytes(std::span(&phi, 1)), 0);
  }
  return part;
}

MFNoiseState scattered(const Communicator& communicator, const StateSlices& slices, MFNoiseState whole) {
  const at::Tensor all = std::exchange(whole.buffers, at::zeros({whole.buffers.size(0), slices.size()}, at::kFloat));
  whole.begin = slices.begin();
  if (whole.step == 0) return whole;
  for (std::int64_t i = 0; i < all.size(0); ++i) scatter_flat(communicator, slices, all[i], whole.buffers[i]);
  return whole;
}

optim::OptimizerState gathered(const Communicator& communicator, const StateSlices& slices, const PyTree& params,
                               const optim::OptimizerState& part) {
  optim::OptimizerState whole{.step = part.step};
  for (const auto& [name, tree] : part.slots) {
    const at::Tensor flat = gathered_flat(communicator, slices, tree.tensor());
    if (communicator.rank() == 0) whole.slots.emplace(name, unflatten(params, flat));
  }
  if (!part.phi.empty()) whole.phi.assign(params.num_leaves(), part.phi.front());
  return whole;
}

MFNoiseState gathered(const Communicator& communicator, const StateSlices& slices, const MFNoiseState& part) {
  MFNoiseState whole = part;
  whole.begin = 0;
  const bool keeps = communicator.rank() == 0;
  whole.buffers = at::empty({part.buffers.size(0), keeps ? slices.num_parameters() : 0}, at::kFloat);
  for (std::int64_t i = 0; i < part.buffers.size(0); ++i) {
    const at::Tensor flat = gathered_flat(communicator, slices, part.buffers[i]);
    if (keeps) whole.buffers[i].copy_(flat);
  }
  return whole;
}

PyTree gathered_published(const Communicator& communicator, const StateSlices& slices,
                          const optim::FunctionalOptimizer& optimizer, const PyTree& params,
                          const optim::OptimizerState& part) {
  const PyTree published = optimizer.published(PyTree(slices.of(flatten(params))), part);
  return unflatten(params, gathered_flat(communicator, slices, published.tensor()));
}

}  // namespace ripieno
