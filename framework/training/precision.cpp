#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/training/precision.hpp>

namespace ripieno {
namespace {

/// Autocast of a device's operations to bfloat16 on this thread, for as long as it lives. Casts are not cached: a
/// cached one would belong to the graph of an earlier microbatch.
class Autocast {
 public:
  explicit Autocast(at::DeviceType device)
      : device_(device),
        enabled_(at::autocast::is_autocast_enabled(device)),
        dtype_(at::autocast::get_autocast_dtype(device)),
        caches_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~Autocast() {
    at::autocast::set_autocast_enabled(device_, enabled_);
    at::autocast::set_autocast_dtype(device_, dtype_);
    at::autocast::set_autocast_cache_enabled(caches_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool enabled_;
  at::ScalarType dtype_;
  bool caches_;
};

}  // namespace

void check_precision(const std::string& precision) {
  if (precision == "fp32" || precision == "bf16") return;
  if (precision == "fp16")
    throw UsageError("--precision fp16 is not offered",
                     "gradients of single examples leave its range, and a loss scaler, the usual remedy, would let one "
                     "example's overflow change the steps of all",
                     "use bf16, which has the range of fp32");
  throw UsageError("--precision is " + precision, "available: fp32, bf16");
}

Forward in_bfloat16(Forward forward) {
  return [forward = std::move(forward)](const PyTree& params, const at::Tensor& x) {
    const auto logits = [&] {
      const Autocast autocast(x.device().type());
      return forward(params, x);
    }();
    return logits.to(at::kFloat);
  };
}

}  // namespace ripieno
