#define RIPIENO_RANDOM_ISA cuda_device

#include <cstring>
#include <ripieno/framework/cuda/launch.cuh>
#include <ripieno/framework/random/kernels.hpp>
#include <ripieno/framework/random/normal_device.hpp>
#include <ripieno/framework/random/normal_grid.hpp>

namespace ripieno {
namespace {

using random_detail::NormalGrid;
using random_detail::Sink;

template <class T, bool adds>
struct OneThread {
  NormalGrid grid;
  T* out;

  __device__ void operator()(std::uint64_t i) const { grid.run(i, Sink<T, adds>{out}); }
};

template <class T, bool adds>
void launch(T* out, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position, double stddev,
            cuda::Stream* stream) {
  constexpr double k_largest = sizeof(T) == sizeof(float) ? random_detail::k_largest_float_stddev
                                                           : random_detail::k_largest_double_stddev;
  random_detail::check_slice(size, position, stddev, k_largest);
  if (size == 0) return;
  NormalGrid grid{.key = {}, .step = step, .first = position, .last = position + size, .stddev = stddev};
  std::memcpy(grid.key.words, key.words.data(), sizeof grid.key.words);
  cuda::for_each_index(OneThread<T, adds>{grid, out}, grid.threads(), stream, "the noise kernel");
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
