#pragma once

#include <ATen/core/ScalarType.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <future>
#include <ripieno/framework/comm/collective_thread.hpp>
#include <ripieno/framework/comm/communicator.hpp>
#include <vector>

namespace ripieno {

/// Collective. The sum over ranks in place. flat: contiguous float32, float64 or int64 [n] on the CPU; integers, which
/// the caller knows to fit, modulo 2^64.
void sum_over_ranks(const Communicator& communicator, const at::Tensor& flat);

/// A sum over ranks that leaves in buckets, each as soon as this rank's part of it is done. Buckets leave in ascending
/// order on every rank, whatever fails there, made by one thread; until `wait` returns nobody else may make collective
/// calls.
class BucketedSum {
 public:
  /// `numel` values in ceil(numel / bucket_size) collectives; bucket_size > 0. Both outlive this object.
  BucketedSum(const Communicator& communicator, CollectiveThread& thread, std::int64_t numel, std::int64_t bucket_size);
  /// Waits for what has left.
  ~BucketedSum();
  BucketedSum(const BucketedSum&) = delete;
  BucketedSum& operator=(const BucketedSum&) = delete;

  /// Elements [0, size) of this rank's `flat` are done: the buckets in there leave. The same tensor in every call;
  /// nobody else may touch these elements before `wait` returns.
  void advance(const at::Tensor& flat, std::int64_t size);

  [[nodiscard]] bool all_sent() const { return sent_ == numel_; }

  /// Zeros for what this rank has not got, of the dtype of the others' sums.
  void send_zeros(at::ScalarType dtype);

  /// Returns once every bucket is summed. Throws what the first failed collective threw, when no other is under way.
  void wait();

  /// Spent inside the collectives, where ranks also wait for each other. For after `wait`.
  [[nodiscard]] double seconds() const;

 private:
  void send(std::int64_t end);

  const Communicator& communicator_;
  CollectiveThread& thread_;
  std::int64_t numel_;
  std::int64_t bucket_size_;
  std::int64_t sent_ = 0;
  at::Tensor flat_;
  std::vector<double> bucket_s_;
  std::vector<std::future<void>> under_way_;
};

}  // namespace ripieno
