#include <ATen/ATen.h>

#include <algorithm>
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

/// Collective. A tree like `params` of the ranks' parts.
PyTree gathered_tree(const Communicator& communicator, const StateSlices& slices, const PyTree& params,
                     const at::Tensor& part) {
  const at::Tensor flat = at::empty({params.numel()}, part.options());
  slices.of(flat).copy_(part);
  gather_slices(communicator, slices, flat);
  return unflatten(params, flat);
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
    const at::Tensor flat =
        communicator.rank() == 0 ? flatten(whole.slots.at(name)) : at::empty({params.numel()}, tree.tensor().options());
    communicator.broadcast({static_cast<std::byte*>(flat.mutable_data_ptr()), flat.nbytes()}, 0);
    tree.tensor().copy_(slices.of(flat));
    whole.slots.erase(name);
  }
  // The noise is the same in all leaves.
  for (double& phi : part.phi) {
    if (communicator.rank() == 0) phi = whole.phi.front();
    communicator.broadcast(std::as_writable_bytes(std::span(&phi, 1)), 0);
  }
  return part;
}

optim::OptimizerState gathered(const Communicator& communicator, const StateSlices& slices, const PyTree& params,
                               const optim::OptimizerState& part) {
  optim::OptimizerState whole{.step = part.step};
  for (const auto& [name, tree] : part.slots) {
    whole.slots.emplace(name, gathered_tree(communicator, slices, params, tree.tensor()));
  }
  if (!part.phi.empty()) whole.phi.assign(params.num_leaves(), part.phi.front());
  return whole;
}

PyTree gathered_published(const Communicator& communicator, const StateSlices& slices,
                          const optim::FunctionalOptimizer& optimizer, const PyTree& params,
                          const optim::OptimizerState& part) {
  const PyTree published = optimizer.published(PyTree(slices.of(flatten(params))), part);
  return gathered_tree(communicator, slices, params, published.tensor());
}

}  // namespace ripieno
