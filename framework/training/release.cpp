#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/core/tree_device.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/device_release.hpp>
#include <ripieno/framework/training/release.hpp>
#include <ripieno/framework/training/step.hpp>

namespace ripieno {
namespace {

/// Runs `work` and adds what it took.
template <class Work>
void timed(double& seconds, Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double OverlapTimes::hidden_fraction() const {
  return sum_s > 0 ? std::clamp((sum_s - waited_s) / sum_s, 0.0, 1.0) : 0;
}

GradientRelease::GradientRelease(const StepParts& parts, const PyTree& params, double max_norm, std::int64_t step)
    : parts_(parts), params_(params), max_norm_(max_norm), step_(step) {
  const ReleaseOptions& options = parts.release;
  if (options.thread != nullptr && parts.slices == nullptr && parts.device == nullptr) {
    buckets_.emplace(parts.communicator, *options.thread, params.numel(), options.bucket_size);
  }
}

void GradientRelease::advance(const at::Tensor& flat, std::int64_t size) {
  if (buckets_) buckets_->advance(flat, size);
}

void GradientRelease::send_rest() {
  if (!buckets_) return;
  if (!buckets_->all_sent()) buckets_->send_zeros(wire_dtype(parts_.plan, params_));
  if (makes_noise()) timed(times_.noise_s, [&] { noise_ = prepared_noise(); });
  timed(times_.waited_s, [&] { buckets_->wait(); });
  times_.sum_s = buckets_->seconds();
}

Noised<PyTree> GradientRelease::finish(const at::Tensor& flat) && {
  if (flat.is_cpu()) {
    sum_and_noise(flat);
  } else {
    times_ = sum_and_noise_on_device(parts_, flat, max_norm_, step_);
  }
  if (OverlapTimes* const total = parts_.release.times) {
    total->sum_s += times_.sum_s;
    total->waited_s += times_.waited_s;
    total->noise_s += times_.noise_s;
  }
  // Where the optimizer works.
  const at::Tensor released = flat.to(device_of(params_));
  if (parts_.release.noise_from_rank0) {
    const at::Tensor host = released.cpu();
    parts_.communicator.broadcast({static_cast<std::byte*>(host.mutable_data_ptr()), host.nbytes()}, 0);
    released.copy_(host);
  }
  return {released_tree(released), max_norm_, parts_.noise.stddev(max_norm_, step_), parts_.noise.key_fingerprint(),
          Extent::global};
}

void GradientRelease::sum_and_noise(const at::Tensor& flat) {
  if (!buckets_) {
    timed(times_.sum_s, [&] { sum_over_ranks(parts_.communicator, flat); });
    times_.waited_s = times_.sum_s;
  }
  if (makes_noise()) timed(times_.noise_s, [&] { add_noise(flat); });
}

bool GradientRelease::makes_noise() const { return parts_.release.noise_made_by(parts_.communicator.rank()); }

std::optional<PreparedNoise> GradientRelease::prepared_noise() const {
  const at::ScalarType dtype = wire_dtype(parts_.plan, params_);
  if (dtype == at::kLong) {
    return parts_.noise.prepare_on_lattice(params_.numel(), parts_.plan.lattice_step(max_norm_), max_norm_, step_);
  }
  return parts_.noise.prepare(params_.numel(), dtype, max_norm_, step_);
}

void GradientRelease::add_noise(const at::Tensor& flat) {
  if (noise_) {
    std::move(*noise_).add_to_(flat);
  } else if (flat.scalar_type() == at::kLong) {
    parts_.noise.apply_on_lattice_(flat, parts_.plan.lattice_step(max_norm_), max_norm_, step_);
  } else {
    parts_.noise.apply_(flat, max_norm_, step_);
  }
}

PyTree GradientRelease::released_tree(const at::Tensor& flat) const {
  if (flat.scalar_type() != at::kLong) return unflatten(params_, flat);
  const at::ScalarType dtype = params_.num_leaves() > 0 ? params_.leaves().front().scalar_type() : at::kFloat;
  return unflatten(params_, flat.to(at::kDouble).mul_(parts_.plan.lattice_step(max_norm_)).to(dtype));
}

}  // namespace ripieno
