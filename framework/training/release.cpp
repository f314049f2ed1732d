#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/training/device_release.hpp>
#include <ripieno/framework/training/release.hpp>
#include <ripieno/framework/training/step.hpp>
#include <vector>

namespace ripieno {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

template <class T>
std::span<T> values_of(const at::Tensor& flat) {
  return {flat.mutable_data_ptr<T>(), static_cast<std::size_t>(flat.numel())};
}

/// Consecutive parts of a step's flat sum.
class Bucket {
 public:
  Bucket(const StepParts& parts, const at::Tensor& flat, std::int64_t begin, std::int64_t size)
      : parts_(parts), values_(flat.narrow(0, begin, size)), begin_(begin) {}

  /// Collective; `seconds` is what it took.
  void sum(double& seconds) const {
    const auto start = Clock::now();
    if (values_.scalar_type() == at::kLong) {
      parts_.communicator.allreduce_sum_unchecked(values_of<std::int64_t>(values_));
    } else if (values_.scalar_type() == at::kDouble) {
      parts_.communicator.allreduce_sum(values_of<double>(values_));
    } else {
      parts_.communicator.allreduce_sum(values_of<float>(values_));
    }
    seconds = seconds_since(start);
  }

  void add_noise(double max_norm, std::int64_t step) const {
    if (values_.scalar_type() == at::kLong) {
      parts_.noise.apply_on_lattice_(values_, parts_.plan.lattice_step(), max_norm, step, begin_);
    } else {
      parts_.noise.apply_(values_, max_norm, step, begin_);
    }
  }

 private:
  const StepParts& parts_;
  at::Tensor values_;
  std::int64_t begin_;
};

std::vector<Bucket> cut(const StepParts& parts, const at::Tensor& flat) {
  const std::int64_t size = parts.release.bucket_size > 0 ? parts.release.bucket_size : flat.numel();
  std::vector<Bucket> buckets;
  for (std::int64_t begin = 0; begin < flat.numel(); begin += size) {
    buckets.emplace_back(parts, flat, begin, std::min(size, flat.numel() - begin));
  }
  return buckets;
}

/// Collective. A bucket is noised as soon as it is there, while the next one is on its way.
OverlapTimes sum_and_noise(const StepParts& parts, const at::Tensor& flat, double max_norm, std::int64_t step) {
  const std::vector<Bucket> buckets = cut(parts, flat);
  std::vector<double> sum_s(buckets.size());
  OverlapTimes times;
  const auto start = Clock::now();
  std::vector<std::future<void>> sums;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const auto sum = [&, i] { buckets[i].sum(sum_s[i]); };
    sums.push_back(parts.release.thread != nullptr ? parts.release.thread->post(sum)
                                                   : std::async(std::launch::deferred, sum));
  }
  std::exception_ptr failure;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    try {
      sums[i].get();
      if (failure) continue;  // the thread still uses the buckets
      const auto noise_start = Clock::now();
      if (!parts.release.noise_from_rank0 || parts.communicator.rank() == 0) buckets[i].add_noise(max_norm, step);
      times.noise_s += seconds_since(noise_start);
      times.sum_s += sum_s[i];
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  times.wall_s = seconds_since(start);
  return times;
}

/// The tree that the optimizer sees.
PyTree released_tree(const PrivacyPlan& plan, const PyTree& params, const at::Tensor& flat) {
  if (flat.scalar_type() != at::kLong) return unflatten(params, flat);
  const at::ScalarType dtype = params.num_leaves() > 0 ? params.leaves().front().scalar_type() : at::kFloat;
  return unflatten(params, flat.to(at::kDouble).mul_(plan.lattice_step()).to(dtype));
}

}  // namespace

double OverlapTimes::hidden_fraction() const {
  const double shorter = std::min(sum_s, noise_s);
  return shorter > 0 ? std::clamp((sum_s + noise_s - wall_s) / shorter, 0.0, 1.0) : 0;
}

Noised<PyTree> release_gradient(const StepParts& parts, const PyTree& params, const at::Tensor& flat, double max_norm,
                                std::int64_t step) {
  const OverlapTimes times =
      flat.is_cpu() ? sum_and_noise(parts, flat, max_norm, step) : sum_and_noise_on_device(parts, flat, max_norm, step);
  if (OverlapTimes* const total = parts.release.times) {
    total->sum_s += times.sum_s;
    total->noise_s += times.noise_s;
    total->wall_s += times.wall_s;
  }
  // The optimizer works in host memory.
  const at::Tensor released = flat.cpu();
  if (parts.release.noise_from_rank0) {
    parts.communicator.broadcast({static_cast<std::byte*>(released.mutable_data_ptr()), released.nbytes()}, 0);
  }
  return {released_tree(parts.plan, params, released), max_norm, parts.noise.stddev(max_norm, step),
          parts.noise.key_fingerprint(), Extent::global};
}

}  // namespace ripieno
