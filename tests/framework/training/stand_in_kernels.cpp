// The functions of normal_device.hpp, device_kernels.hpp and device_hash.hpp over host memory: what the device's
// threads do, done one after another by the same source. They take the place of those in the libraries. The cuda preset
// compiles this file by nvcc.
#define RIPIENO_RANDOM_ISA stand_in_for_device

#include <cstring>
#include <ripieno/framework/optim/device_kernels.hpp>
#include <ripieno/framework/optim/element_arithmetic.hpp>
#include <ripieno/framework/random/normal_device.hpp>
#include <ripieno/framework/random/normal_grid.hpp>
#include <ripieno/framework/training/device_hash.hpp>
#include <ripieno/framework/training/word_hash.hpp>

namespace ripieno {
namespace {

template <bool adds, class T>
void run_grid(T* out, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position, double stddev) {
  if (size == 0) return;
  random_detail::NormalGrid grid{.key = {}, .step = step, .first = position, .last = position + size, .stddev = stddev};
  std::memcpy(grid.key.words, key.words.data(), sizeof grid.key.words);
  for (std::uint64_t thread = 0; thread < grid.threads(); ++thread) {
    grid.run(thread, random_detail::Sink<T, adds>{out});
  }
}

}  // namespace

void fill_normal_on_device(float* out, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position,
                           double stddev, cuda::Stream* /*stream*/) {
  run_grid<false>(out, size, key, step, position, stddev);
}
void fill_normal_on_device(double* out, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position,
                           double stddev, cuda::Stream* /*stream*/) {
  run_grid<false>(out, size, key, step, position, stddev);
}
void add_normal_on_device(float* inout, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position,
                          double stddev, cuda::Stream* /*stream*/) {
  run_grid<true>(inout, size, key, step, position, stddev);
}
void add_normal_on_device(double* inout, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position,
                          double stddev, cuda::Stream* /*stream*/) {
  run_grid<true>(inout, size, key, step, position, stddev);
}

void add_word_hashes_on_device(const std::uint32_t* words, std::size_t size, std::uint64_t position, std::uint64_t* sum,
                               cuda::Stream* /*stream*/) {
  for (std::size_t i = size; i > 0; --i) *sum += word_hash(words[i - 1], position + i - 1);
}

namespace optim {
namespace {

using namespace element_arithmetic;

template <class Real>
void step(const ElementRule& rule, const Shaping& shaping, const Elements<Real>& elements, std::size_t size) {
  std::visit(
      [&](const auto& chosen) {
        for (std::size_t i = 0; i < size; ++i) step_range<1>(chosen, shaping, elements, i, i + 1);
      },
      rule);
}

}  // namespace

void step_on_device(const ElementRule& rule, const Shaping& shaping, const Elements<float>& elements, std::size_t size,
                    cuda::Stream* /*stream*/) {
  step(rule, shaping, elements, size);
}
void step_on_device(const ElementRule& rule, const Shaping& shaping, const Elements<double>& elements, std::size_t size,
                    cuda::Stream* /*stream*/) {
  step(rule, shaping, elements, size);
}

void average_on_device(float* average, const float* params, const float* updates, double weight, std::size_t size,
                       cuda::Stream* /*stream*/) {
  for (std::size_t i = 0; i < size; ++i) average_range(average, params, updates, weight, i, i + 1);
}
void average_on_device(double* average, const double* params, const double* updates, double weight, std::size_t size,
                       cuda::Stream* /*stream*/) {
  for (std::size_t i = 0; i < size; ++i) average_range(average, params, updates, weight, i, i + 1);
}

void interpolate_on_device(const float* z, const float* x, float* params, float* updates, double weight,
                           std::size_t size, cuda::Stream* /*stream*/) {
  for (std::size_t i = 0; i < size; ++i) interpolate_range(z, x, params, updates, weight, i, i + 1);
}
void interpolate_on_device(const double* z, const double* x, double* params, double* updates, double weight,
                           std::size_t size, cuda::Stream* /*stream*/) {
  for (std::size_t i = 0; i < size; ++i) interpolate_range(z, x, params, updates, weight, i, i + 1);
}

}  // namespace optim
}  // namespace ripieno
