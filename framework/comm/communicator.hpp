#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ripieno/framework/comm/device_sums.hpp>
#include <span>
#include <vector>

namespace ripieno {

/// How the ranks' values are combined into one.
enum class ReduceOp { sum, product, max, min };

/// A group of ranks and the few collectives that training needs. Every member but `rank` and `size` is collective: each
/// rank calls it, in the same order, with spans of the same length (allgather excepted). Calls come from one thread at
/// a time. Failures are CommError, naming rank, host, operation and the cause.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// This process's number, 0 <= rank < size.
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// Collective. Element-wise reduction over ranks, in place; every rank gets the same bits. The order of
  /// floating-point sums and products is the library's and may change with the number of ranks. A maximum or minimum is
  /// NaN where any rank has NaN.
  virtual void allreduce(std::span<float> values, ReduceOp op) const = 0;
  virtual void allreduce(std::span<double> values, ReduceOp op) const = 0;
  /// Collective. Exact: a sum or product that does not fit is a CommError on every rank.
  virtual void allreduce(std::span<std::int64_t> values, ReduceOp op) const = 0;
  /// Collective. The sum modulo 2^64 in half the traffic, for callers that know it to fit.
  virtual void allreduce_sum_unchecked(std::span<std::int64_t> values) const = 0;

  /// Collective. The ranks own consecutive parts of `values`, of the same `sizes` everywhere, which add up to its
  /// length. On return this rank's part holds the sum over ranks (of integers modulo 2^64); the rest is not specified.
  /// Its order need not be that of allreduce. At most 2^30 values.
  virtual void reduce_scatter_sum(std::span<float> values, std::span<const std::int64_t> sizes) const = 0;
  virtual void reduce_scatter_sum(std::span<double> values, std::span<const std::int64_t> sizes) const = 0;
  virtual void reduce_scatter_sum(std::span<std::int64_t> values, std::span<const std::int64_t> sizes) const = 0;
  /// Collective. The inverse: every rank's part of `values`, on all of them.
  virtual void allgather_slices(std::span<float> values, std::span<const std::int64_t> sizes) const = 0;
  virtual void allgather_slices(std::span<double> values, std::span<const std::int64_t> sizes) const = 0;

  template <class T>
  void allreduce_sum(std::span<T> values) const {
    allreduce(values, ReduceOp::sum);
  }
  template <class T>
  void allreduce_max(std::span<T> values) const {
    allreduce(values, ReduceOp::max);
  }

  /// Collective. The bytes of rank `root` on every rank.
  virtual void broadcast(std::span<std::byte> bytes, int root) const = 0;

  /// Collective. What each rank gave, in rank order, on every rank. The sizes may differ and may be zero.
  [[nodiscard]] virtual std::vector<std::vector<std::byte>> allgather(std::span<const std::byte> bytes) const = 0;

  /// Collective. Returns once every rank has called it.
  virtual void barrier() const = 0;

  /// Sums of arrays in device memory; null where the ranks work on their processors, or there is one rank.
  [[nodiscard]] virtual DeviceSums* device_sums() const { return nullptr; }

 protected:
  Communicator() = default;
  Communicator(const Communicator&) = default;
  Communicator(Communicator&&) = default;
  Communicator& operator=(const Communicator&) = default;
  Communicator& operator=(Communicator&&) = default;
};

/// One rank alone: sums and broadcasts leave their argument as it is. Makes no MPI call and works without MPI_Init.
[[nodiscard]] std::unique_ptr<Communicator> make_null_communicator();

}  // namespace ripieno
