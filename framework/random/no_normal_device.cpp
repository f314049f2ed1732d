#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/random/normal_device.hpp>

namespace ripieno {
namespace {

[[noreturn]] void refuse() { throw UsageError("noise on a device", "this build has no CUDA", "use the cuda preset"); }

}  // namespace

void fill_normal_on_device(float* /*out*/, std::size_t /*size*/, const Key& /*key*/, std::uint64_t /*step*/,
                           std::uint64_t /*position*/, double /*stddev*/, cuda::Stream* /*stream*/) {
  refuse();
}
void fill_normal_on_device(double* /*out*/, std::size_t /*size*/, const Key& /*key*/, std::uint64_t /*step*/,
                           std::uint64_t /*position*/, double /*stddev*/, cuda::Stream* /*stream*/) {
  refuse();
}
void add_normal_on_device(float* /*inout*/, std::size_t /*size*/, const Key& /*key*/, std::uint64_t /*step*/,
                          std::uint64_t /*position*/, double /*stddev*/, cuda::Stream* /*stream*/) {
  refuse();
}
void add_normal_on_device(double* /*inout*/, std::size_t /*size*/, const Key& /*key*/, std::uint64_t /*step*/,
                          std::uint64_t /*position*/, double /*stddev*/, cuda::Stream* /*stream*/) {
  refuse();
}

}  // namespace ripieno
