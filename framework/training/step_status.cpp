#include <ATen/ATen.h>
#include <xxhash.h>

#include <array>
#include <ripieno/framework/core/device_stream.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/core/tree_device.hpp>
#include <ripieno/framework/training/collectively.hpp>
#include <ripieno/framework/training/device_hash.hpp>
#include <ripieno/framework/training/step_status.hpp>
#include <string>

namespace ripieno {
namespace {

/// Of parameters in the memory of a device, which makes it; returns when it has.
std::uint64_t hash_on_device(const PyTree& params, at::Device device) {
  const at::Tensor sum = at::zeros({1}, at::TensorOptions().dtype(at::kLong).device(device));
  std::uint64_t position = 0;
  for (const at::Tensor& leaf : params.leaves()) {
    const std::size_t words = leaf.nbytes() / sizeof(std::uint32_t);  // leaves are of float32 or float64
    add_word_hashes_on_device(static_cast<const std::uint32_t*>(leaf.const_data_ptr()), words, position,
                              static_cast<std::uint64_t*>(sum.mutable_data_ptr()), current_stream(device));
    position += words;
  }
  return static_cast<std::uint64_t>(sum.item<std::int64_t>());
}

std::uint64_t hash_in_memory(const PyTree& params) {
  const at::Tensor flat = flatten(params);
  return XXH3_64bits(flat.const_data_ptr(), flat.nbytes());
}

/// 62 bits of a hash over the bytes of the parameters and the clipping norm, in halves whose sums over ranks do not
/// overflow. Either all ranks have devices or none.
std::array<std::int64_t, 2> hash_of(const TrainingState& state) {
  const at::Device device = device_of(state.params);
  std::uint64_t hash = device.is_cpu() ? hash_in_memory(state.params) : hash_on_device(state.params, device);
  if (state.clipping) hash = XXH3_64bits_withSeed(state.clipping->clipping_norms.data(), sizeof(double), hash);
  constexpr std::uint64_t k_half = (std::uint64_t{1} << 31) - 1;
  return {static_cast<std::int64_t>(hash & k_half), static_cast<std::int64_t>(hash >> 31 & k_half)};
}

std::exception_ptr drift(std::int64_t step) {
  return std::make_exception_ptr(CommError("parameters differ between ranks at step " + std::to_string(step),
                                           "some rank computed other bits than the rest",
                                           "run all ranks on one type of machine with the same library versions"));
}

}  // namespace

StepOutcome agree_on_step(const StepParts& parts, const TrainingState& state, const ClippedSum& local,
                          std::exception_ptr failure, StepRequest request) {
  try {
    parts.ledger.wait(state.step());
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
  const auto [low, high] = hash_of(state);
  std::array<std::int64_t, 8> sums{failure ? 1 : 0,
                                   low,
                                   high,
                                   local.batch_size,
                                   local.num_clipped,
                                   local.num_non_finite,
                                   request.stop ? 1 : 0,
                                   request.checkpoint ? 1 : 0};
  parts.communicator.allreduce_sum(std::span<std::int64_t>(sums));

  if (sums[0] > 0) agree_on_failure(parts.communicator, failure);
  // A sum of equal hashes is world_size times each of them; when they differ, no rank finds it so.
  const std::int64_t world_size = parts.communicator.size();
  if (sums[1] != world_size * low || sums[2] != world_size * high)
    agree_on_failure(parts.communicator, drift(state.step()));
  parts.ledger.confirm(state.step());
  return {.statistics = {.batch_size = sums[3],
                         .num_clipped = sums[4],
                         .num_non_finite = sums[5],
                         .loss_sum = local.loss_sum},
          .request = {.stop = sums[6] > 0, .checkpoint = sums[7] > 0}};
}

}  // namespace ripieno
