#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/optim/device_kernels.hpp>

namespace ripieno::optim {
namespace {

[[noreturn]] void refuse() {
  throw UsageError("an optimizer on a device", "this build has no CUDA", "use the cuda preset");
}

}  // namespace

void step_on_device(const ElementRule& /*rule*/, const Shaping& /*shaping*/, const Elements<float>& /*elements*/,
                    std::size_t /*size*/, cuda::Stream* /*stream*/) {
  refuse();
}
void step_on_device(const ElementRule& /*rule*/, const Shaping& /*shaping*/, const Elements<double>& /*elements*/,
                    std::size_t /*size*/, cuda::Stream* /*stream*/) {
  refuse();
}

void average_on_device(float* /*average*/, const float* /*params*/, const float* /*updates*/, double /*weight*/,
                       std::size_t /*size*/, cuda::Stream* /*stream*/) {
  refuse();
}
void average_on_device(double* /*average*/, const double* /*params*/, const double* /*updates*/, double /*weight*/,
                       std::size_t /*size*/, cuda::Stream* /*stream*/) {
  refuse();
}

void interpolate_on_device(const float* /*z*/, const float* /*x*/, float* /*params*/, float* /*updates*/,
                           double /*weight*/, std::size_t /*size*/, cuda::Stream* /*stream*/) {
  refuse();
}
void interpolate_on_device(const double* /*z*/, const double* /*x*/, double* /*params*/, double* /*updates*/,
                           double /*weight*/, std::size_t /*size*/, cuda::Stream* /*stream*/) {
  refuse();
}

}  // namespace ripieno::optim
