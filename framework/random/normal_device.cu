#define RIPIENO_RANDOM_ISA cuda_device

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/random/kernels.hpp>
#include <ripieno/framework/random/normal_device.hpp>
#include <ripieno/framework/random/normal_grid.hpp>
#include <string>

namespace ripieno {
namespace {

using random_detail::NormalGrid;
using random_detail::Sink;

constexpr unsigned k_threads = 256;
/// Threads take several blocks of a long slice each, a grid apart.
constexpr std::uint64_t k_most_thread_blocks = std::uint64_t{1} << 20;

template <class T, bool adds>
__global__ void __launch_bounds__(k_threads) normal_kernel(NormalGrid grid, T* out) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  const std::uint64_t threads = grid.threads();
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < threads; i += stride) {
    grid.run(i, Sink<T, adds>{out});
  }
}

template <class T, bool adds>
void launch(T* out, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position, double stddev,
            cuda::Stream* stream) {
  constexpr double k_largest = sizeof(T) == sizeof(float) ? random_detail::k_largest_float_stddev
                                                           : random_detail::k_largest_double_stddev;
  random_detail::check_slice(size, position, stddev, k_largest);
  if (size == 0) return;
  NormalGrid grid{.key = {}, .step = step, .first = position, .last = position + size, .stddev = stddev};
  std::memcpy(grid.key.words, key.words.data(), sizeof grid.key.words);
  const std::uint64_t blocks = (grid.threads() + k_threads - 1) / k_threads;
  normal_kernel<T, adds><<<static_cast<unsigned>(std::min(blocks, k_most_thread_blocks)), k_threads, 0,
                           reinterpret_cast<cudaStream_t>(stream)>>>(grid, out);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) {
    throw CommError("the noise kernel could not be launched", cudaGetErrorString(status),
                    "build for this device's architecture (CMAKE_CUDA_ARCHITECTURES)");
  }
}

}  // namespace

void fill_normal_on_device(float* out, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position,
                           double stddev, cuda::Stream* stream) {
  launch<float, false>(out, size, key, step, position, stddev, stream);
}
void fill_normal_on_device(double* out, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position,
                           double stddev, cuda::Stream* stream) {
  launch<double, false>(out, size, key, step, position, stddev, stream);
}
void add_normal_on_device(float* inout, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position,
                          double stddev, cuda::Stream* stream) {
  launch<float, true>(inout, size, key, step, position, stddev, stream);
}
void add_normal_on_device(double* inout, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position,
                          double stddev, cuda::Stream* stream) {
  launch<double, true>(inout, size, key, step, position, stddev, stream);
}

}  // namespace ripieno
