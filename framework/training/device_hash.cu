#include <cuda_runtime_api.h>

#include <algorithm>
#include <ripieno/framework/cuda/launch.cuh>
#include <ripieno/framework/training/device_hash.hpp>
#include <ripieno/framework/training/word_hash.hpp>

namespace ripieno {
namespace {

using cuda::k_threads;
constexpr unsigned k_warp = 32;
/// So few that adding up what they found does not count.
constexpr std::size_t k_most_thread_blocks = 2048;

__global__ void __launch_bounds__(k_threads)
    hash_kernel(const std::uint32_t* words, std::size_t size, std::uint64_t position, unsigned long long* sum) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  unsigned long long found = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += stride) {
    found += word_hash(words[i], position + i);
  }
  for (unsigned distance = k_warp / 2; distance > 0; distance /= 2) {
    found += __shfl_down_sync(0xffff'ffff, found, distance);
  }
  if (threadIdx.x % k_warp == 0) atomicAdd(sum, found);
}

}  // namespace

void add_word_hashes_on_device(const std::uint32_t* words, std::size_t size, std::uint64_t position, std::uint64_t* sum,
                               cuda::Stream* stream) {
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  if (size == 0) return;
  const std::size_t blocks = std::min((size + k_threads - 1) / k_threads, k_most_thread_blocks);
  hash_kernel<<<static_cast<unsigned>(blocks), k_threads, 0, cuda::real(stream)>>>(
      words, size, position, reinterpret_cast<unsigned long long*>(sum));
  cuda::check_launch("the kernel that compares parameters");
}

}  // namespace ripieno
