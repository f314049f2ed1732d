#pragma once

#include <cstddef>
#include <ripieno/framework/optim/element_kernels.hpp>

namespace ripieno {

namespace cuda {
struct Stream;
}

namespace optim {

// The kernels of element_kernels.hpp for elements [0, size), by a CUDA device in its own memory: the same bits, by the
// same source. Pointers are of the device that is current; the work is queued on `stream`. CommError where the device
// fails; a UsageError in a build without CUDA.

void step_on_device(const ElementRule& rule, const Shaping& shaping, const Elements<float>& elements, std::size_t size,
                    cuda::Stream* stream);
void step_on_device(const ElementRule& rule, const Shaping& shaping, const Elements<double>& elements, std::size_t size,
                    cuda::Stream* stream);

void average_on_device(float* average, const float* params, const float* updates, double weight, std::size_t size,
                       cuda::Stream* stream);
void average_on_device(double* average, const double* params, const double* updates, double weight, std::size_t size,
                       cuda::Stream* stream);

void interpolate_on_device(const float* z, const float* x, float* params, float* updates, double weight,
                           std::size_t size, cuda::Stream* stream);
void interpolate_on_device(const double* z, const double* x, double* params, double* updates, double weight,
                           std::size_t size, cuda::Stream* stream);

}  // namespace optim
}  // namespace ripieno
