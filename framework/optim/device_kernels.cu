#include <ripieno/framework/cuda/launch.cuh>
#include <ripieno/framework/optim/device_kernels.hpp>
#include <ripieno/framework/optim/element_arithmetic.hpp>

namespace ripieno::optim {
namespace {

using namespace element_arithmetic;
using cuda::for_each_index;

template <class Rule, class Real>
struct StepOfOne {
  Rule rule;
  Shaping shaping;
  Elements<Real> elements;

  __device__ void operator()(std::size_t i) const { step_range<1>(rule, shaping, elements, i, i + 1); }
};

template <class Real>
struct AverageOfOne {
  Real* average;
  const Real* params;
  const Real* updates;
  double weight;

  __device__ void operator()(std::size_t i) const { average_range(average, params, updates, weight, i, i + 1); }
};

template <class Real>
struct InterpolationOfOne {
  const Real* z;
  const Real* x;
  Real* params;
  Real* updates;
  double weight;

  __device__ void operator()(std::size_t i) const { interpolate_range(z, x, params, updates, weight, i, i + 1); }
};

/// The rule is chosen here, so that each gets a kernel of its own.
template <class Real>
void step(const ElementRule& rule, const Shaping& shaping, const Elements<Real>& elements, std::size_t size,
          cuda::Stream* stream) {
  std::visit(
      [&]<class Rule>(const Rule& chosen) {
        for_each_index(StepOfOne<Rule, Real>{chosen, shaping, elements}, size, stream, "the optimizer's kernel");
      },
      rule);
}

template <class Real>
void average(Real* average, const Real* params, const Real* updates, double weight, std::size_t size,
             cuda::Stream* stream) {
  for_each_index(AverageOfOne<Real>{average, params, updates, weight}, size, stream, "the kernel of averages");
}

template <class Real>
void interpolate(const Real* z, const Real* x, Real* params, Real* updates, double weight, std::size_t size,
                 cuda::Stream* stream) {
  for_each_index(InterpolationOfOne<Real>{z, x, params, updates, weight}, size, stream, "the kernel of averages");
}

}  // namespace

void step_on_device(const ElementRule& rule, const Shaping& shaping, const Elements<float>& elements, std::size_t size,
                    cuda::Stream* stream) {
  step(rule, shaping, elements, size, stream);
}
void step_on_device(const ElementRule& rule, const Shaping& shaping, const Elements<double>& elements, std::size_t size,
                    cuda::Stream* stream) {
  step(rule, shaping, elements, size, stream);
}

void average_on_device(float* average, const float* params, const float* updates, double weight, std::size_t size,
                       cuda::Stream* stream) {
  optim::average(average, params, updates, weight, size, stream);
}
void average_on_device(double* average, const double* params, const double* updates, double weight, std::size_t size,
                       cuda::Stream* stream) {
  optim::average(average, params, updates, weight, size, stream);
}

void interpolate_on_device(const float* z, const float* x, float* params, float* updates, double weight,
                           std::size_t size, cuda::Stream* stream) {
  interpolate(z, x, params, updates, weight, size, stream);
}
void interpolate_on_device(const double* z, const double* x, double* params, double* updates, double weight,
                           std::size_t size, cuda::Stream* stream) {
  interpolate(z, x, params, updates, weight, size, stream);
}

}  // namespace ripieno::optim
