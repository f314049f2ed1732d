#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ripieno {

/// A group of ranks and the few collectives that training needs. Every member but `rank` and `size` is collective: each
/// rank calls it, in the same order, with spans of the same length (allgather excepted). Calls come from one thread at
/// a time. Failures are CommError, naming rank, host, operation and the cause.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// This process's number, 0 <= rank < size.
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// Collective. Element-wise sum over ranks, in place; every rank gets the same bits. The order of the floating-point
  /// additions is the library's and may change with the number of ranks.
  virtual void allreduce_sum(std::span<float> values) const = 0;
  virtual void allreduce_sum(std::span<double> values) const = 0;
  /// Collective. Exact: a sum that does not fit is a CommError on every rank.
  virtual void allreduce_sum(std::span<std::int64_t> values) const = 0;

  /// Collective. Element-wise maximum over ranks, in place.
  virtual void allreduce_max(std::span<double> values) const = 0;
  virtual void allreduce_max(std::span<std::int64_t> values) const = 0;

  /// Collective. The bytes of rank `root` on every rank.
  virtual void broadcast(std::span<std::byte> bytes, int root) const = 0;

  /// Collective. What each rank gave, in rank order, on every rank. The sizes may differ and may be zero.
  [[nodiscard]] virtual std::vector<std::vector<std::byte>> allgather(std::span<const std::byte> bytes) const = 0;

  /// Collective. Returns once every rank has called it.
  virtual void barrier() const = 0;

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
