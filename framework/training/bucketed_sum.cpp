#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/flat_values.hpp>
#include <ripieno/framework/training/bucketed_sum.hpp>
#include <string>
#include <type_traits>

namespace ripieno {
void sum_over_ranks(const Communicator& communicator, const at::Tensor& flat) {
  with_values(flat, [&](auto values) {
    if constexpr (std::is_same_v<decltype(values), std::span<std::int64_t>>) {
      communicator.allreduce_sum_unchecked(values);
    } else {
      communicator.allreduce_sum(values);
    }
  });
}

BucketedSum::BucketedSum(const Communicator& communicator, CollectiveThread& thread, std::int64_t numel,
                         std::int64_t bucket_size)
    : communicator_(communicator), thread_(thread), numel_(numel), bucket_size_(bucket_size) {
  if (bucket_size <= 0) throw UsageError("buckets of " + std::to_string(bucket_size) + " values", "must be positive");
  const auto buckets = static_cast<std::size_t>((numel + bucket_size - 1) / bucket_size);
  bucket_s_.resize(buckets);  // not moved while the thread writes to it
  under_way_.reserve(buckets);
}

BucketedSum::~BucketedSum() {
  for (const std::future<void>& bucket : under_way_) {
    if (bucket.valid()) bucket.wait();
  }
}

void BucketedSum::advance(const at::Tensor& flat, std::int64_t size) {
  flat_ = flat;
  while (!all_sent()) {
    const std::int64_t end = std::min(sent_ + bucket_size_, numel_);
    if (end > size) return;
    send(end);
  }
}

void BucketedSum::send_zeros(at::ScalarType dtype) {
  if (!flat_.defined()) flat_ = at::empty({numel_}, dtype);
  flat_.narrow(0, sent_, numel_ - sent_).zero_();
  advance(flat_, numel_);
}

void BucketedSum::send(std::int64_t end) {
  const at::Tensor values = flat_.narrow(0, sent_, end - sent_);
  double& seconds = bucket_s_[under_way_.size()];
  under_way_.push_back(thread_.post([this, values, &seconds] {
    const auto start = std::chrono::steady_clock::now();
    sum_over_ranks(communicator_, values);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }));
  sent_ = end;
}

void BucketedSum::wait() {
  std::exception_ptr failure;
  for (std::future<void>& bucket : under_way_) {
    try {
      bucket.get();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

double BucketedSum::seconds() const { return std::accumulate(bucket_s_.begin(), bucket_s_.end(), 0.0); }

}  // namespace ripieno
