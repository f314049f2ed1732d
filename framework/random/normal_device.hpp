#pragma once

#include <cstddef>
#include <cstdint>
#include <ripieno/framework/random/key.hpp>

namespace ripieno {

namespace cuda {
struct Stream;
}

// The deviates of `fill_normal` and `add_normal` (normal.hpp), made by a CUDA device in its own memory: the same bits,
// by the same source. Pointers are of the device that is current; the work is queued on `stream`. What the functions
// there throw, and CommError where the device fails; a UsageError in a build without CUDA.

void fill_normal_on_device(float* out, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position,
                           double stddev, cuda::Stream* stream);
void fill_normal_on_device(double* out, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position,
                           double stddev, cuda::Stream* stream);
void add_normal_on_device(float* inout, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position,
                          double stddev, cuda::Stream* stream);
/// The deviates are those of `fill_normal` in double, each rounded once more with the sum.
void add_normal_on_device(double* inout, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position,
                          double stddev, cuda::Stream* stream);

}  // namespace ripieno
