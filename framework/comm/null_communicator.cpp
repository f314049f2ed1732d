#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/communicator.hpp>
#include <string>

namespace ripieno {
namespace {

class NullCommunicator final : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }

  void allreduce(std::span<float> /*values*/, ReduceOp /*op*/) const override {}
  void allreduce(std::span<double> /*values*/, ReduceOp /*op*/) const override {}
  void allreduce(std::span<std::int64_t> /*values*/, ReduceOp /*op*/) const override {}
  void allreduce_sum_unchecked(std::span<std::int64_t> /*values*/) const override {}

  void reduce_scatter_sum(std::span<float>, std::span<const std::int64_t>) const override {}
  void reduce_scatter_sum(std::span<double>, std::span<const std::int64_t>) const override {}
  void reduce_scatter_sum(std::span<std::int64_t>, std::span<const std::int64_t>) const override {}
  void allgather_slices(std::span<float>, std::span<const std::int64_t>) const override {}
  void allgather_slices(std::span<double>, std::span<const std::int64_t>) const override {}

  void broadcast(std::span<std::byte> /*bytes*/, int root) const override {
    if (root != 0) throw UsageError("broadcast from rank " + std::to_string(root), "there is one rank, number 0");
  }

  [[nodiscard]] std::vector<std::vector<std::byte>> allgather(std::span<const std::byte> bytes) const override {
    return {{bytes.begin(), bytes.end()}};
  }

  void barrier() const override {}
};

}  // namespace

std::unique_ptr<Communicator> make_null_communicator() { return std::make_unique<NullCommunicator>(); }

}  // namespace ripieno
