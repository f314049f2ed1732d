#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/training/device_hash.hpp>

namespace ripieno {

void add_word_hashes_on_device(const std::uint32_t* /*words*/, std::size_t /*size*/, std::uint64_t /*position*/,
                               std::uint64_t* /*sum*/, cuda::Stream* /*stream*/) {
  throw UsageError("parameters on a device", "this build has no CUDA", "use the cuda preset");
}

}  // namespace ripieno
