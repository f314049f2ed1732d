#include <ATen/ATen.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/noise/prepared_noise.hpp>

namespace ripieno {

void PreparedNoise::add_to_(const at::Tensor& flat) && {
  if (flat.sizes() != noise_.sizes() || flat.scalar_type() != noise_.scalar_type()) {
    throw UsageError("noise made for " + noise_.toString() + " of " + std::to_string(noise_.numel()) +
                         " values cannot be added to " + flat.toString() + " of " + std::to_string(flat.numel()),
                     {}, "prepare it for the flat sum that it is for");
  }
  authorise_();
  flat.add_(noise_);
  noise_.reset();
}

}  // namespace ripieno
