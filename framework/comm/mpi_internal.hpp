#pragma once

#include <mpi.h>

#include <chrono>
#include <functional>
#include <memory>
#include <ripieno/framework/comm/communicator.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace ripieno {

class CollectiveMonitor;

/// Throws CommError when `code` is not MPI_SUCCESS, with MPI's text, this rank and host, and what was going on.
void check_mpi(int code, std::string_view function, int rank);

[[nodiscard]] std::string host_name();

/// Owner of an MPI_Comm. Freeing is collective, so it is left out while an exception unwinds on what may be this rank
/// alone, and after MPI_Finalize.
class CommHandle {
 public:
  CommHandle() = default;
  explicit CommHandle(MPI_Comm comm) : comm_(comm) {}
  CommHandle(CommHandle&& other) noexcept;
  CommHandle& operator=(CommHandle&& other) noexcept;
  ~CommHandle();

  [[nodiscard]] MPI_Comm get() const { return comm_; }

  /// Collective. A copy of `parent` whose errors are returned.
  [[nodiscard]] static CommHandle duplicate(MPI_Comm parent);

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// Owner of an MPI_Op for commuting operands.
class OpHandle {
 public:
  explicit OpHandle(MPI_User_function* function);
  OpHandle(OpHandle&& other) noexcept;
  OpHandle& operator=(OpHandle&& other) noexcept;
  ~OpHandle();

  [[nodiscard]] MPI_Op get() const { return op_; }

 private:
  MPI_Op op_ = MPI_OP_NULL;
};

/// Communicator over its own duplicate of an MPI communicator, so that its messages meet no others. Move-only.
class MpiCommunicator final : public Communicator {
 public:
  /// MPI counts in int; longer spans go in pieces of this many elements.
  static constexpr int k_max_count = 1 << 30;

  /// Collective over `parent`. `max_count` > 0 is the longest piece, smaller in tests.
  explicit MpiCommunicator(MPI_Comm parent, int max_count = k_max_count);

  /// Every later collective runs under this watch, which outlives the communicator; null for none.
  void set_monitor(CollectiveMonitor* monitor) { monitor_ = monitor; }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void allreduce(std::span<float> values, ReduceOp op) const override;
  void allreduce(std::span<double> values, ReduceOp op) const override;
  void allreduce(std::span<std::int64_t> values, ReduceOp op) const override;
  void allreduce_sum_unchecked(std::span<std::int64_t> values) const override;
  void reduce_scatter_sum(std::span<float> values, std::span<const std::int64_t> sizes) const override;
  void reduce_scatter_sum(std::span<double> values, std::span<const std::int64_t> sizes) const override;
  void reduce_scatter_sum(std::span<std::int64_t> values, std::span<const std::int64_t> sizes) const override;
  void allgather_slices(std::span<float> values, std::span<const std::int64_t> sizes) const override;
  void allgather_slices(std::span<double> values, std::span<const std::int64_t> sizes) const override;
  void broadcast(std::span<std::byte> bytes, int root) const override;
  [[nodiscard]] std::vector<std::vector<std::byte>> allgather(std::span<const std::byte> bytes) const override;
  void barrier() const override;

  /// What moves tensors of the ranks' devices.
  void set_device_sums(std::unique_ptr<DeviceSums> sums) { device_sums_ = std::move(sums); }
  [[nodiscard]] DeviceSums* device_sums() const override { return device_sums_.get(); }

  [[nodiscard]] MPI_Comm handle() const { return comm_.get(); }

 private:
  template <class T>
  void in_place(std::span<T> values, MPI_Op op) const;
  template <class T>
  [[nodiscard]] MPI_Op mpi_op(ReduceOp op) const;
  template <class T>
  void scatter_sum(std::span<T> values, std::span<const std::int64_t> sizes) const;
  template <class T>
  void gather_slices(std::span<T> values, std::span<const std::int64_t> sizes) const;
  void exact_sum(std::span<std::int64_t> values) const;
  void exact_product(std::span<std::int64_t> values) const;
  [[nodiscard]] std::vector<std::int64_t> gather_sizes(std::size_t size) const;

  /// Maxima and minima that treat NaN and the two zeros alike on every rank.
  struct ExtremeOps {
    OpHandle max, min;
  };

  CommHandle comm_;
  ExtremeOps float_ops_, double_ops_;
  int max_count_;
  int rank_ = 0;
  int size_ = 1;
  CollectiveMonitor* monitor_ = nullptr;
  std::unique_ptr<DeviceSums> device_sums_;  // last: it may use the rest
};

/// Settles which of several failing ranks reports, so that a fault that all ranks see is printed once.
class FailureChannel {
 public:
  /// Collective over `parent`.
  explicit FailureChannel(MPI_Comm parent);

  /// To be called once, by a rank that is about to stop the job. True when no lower rank has failed within `grace`.
  /// Needs no help of the ranks that have not failed. Calls `meanwhile`, which must not throw, while it waits.
  [[nodiscard]] bool speaks_for_all(
      std::chrono::milliseconds grace, const std::function<void()>& meanwhile = [] {}) const noexcept;

 private:
  CommHandle comm_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace ripieno
