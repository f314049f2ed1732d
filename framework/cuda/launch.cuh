#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <ripieno/accounting/base/error.hpp>
#include <string>

// What the kernels of nvcc share.
namespace ripieno::cuda {

struct Stream;

inline constexpr unsigned k_threads = 256;

inline cudaStream_t real(Stream* stream) { return reinterpret_cast<cudaStream_t>(stream); }

/// After a launch: throws CommError, which calls the kernel `what`, where it could not be queued.
inline void check_launch(const std::string& what) {
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) {
    throw CommError(what + " could not be launched", cudaGetErrorString(status),
                    "build for this device's architecture (CMAKE_CUDA_ARCHITECTURES)");
  }
}

template <class Work>
__global__ void __launch_bounds__(k_threads) index_kernel(Work work, std::size_t size) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += stride) work(i);
}

/// Queues work(i) for every i in [0, size), in any order, on `stream`. Throws as `check_launch`.
template <class Work>
void for_each_index(const Work& work, std::size_t size, Stream* stream, const std::string& what) {
  if (size == 0) return;
  // Threads take several indices of a long range each, a grid apart.
  constexpr std::size_t k_most_thread_blocks = std::size_t{1} << 20;
  const std::size_t blocks = std::min((size + k_threads - 1) / k_threads, k_most_thread_blocks);
  index_kernel<<<static_cast<unsigned>(blocks), k_threads, 0, real(stream)>>>(work, size);
  check_launch(what);
}

}  // namespace ripieno::cuda
