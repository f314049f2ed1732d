#include <algorithm>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/checked_communicator.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/comm/rank_texts.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ripieno {
namespace {

const char* name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::product:
      return "product";
    case ReduceOp::max:
      return "maximum";
    case ReduceOp::min:
      return "minimum";
  }
  return "unknown operation";
}

/// Collective. CommError on every rank unless all are about to make the same call.
void check_same_call(const Communicator& communicator, std::string call) {
  if (const std::optional<std::int64_t> step = current_step()) call += " at step " + std::to_string(*step);
  const std::vector<std::string> calls = gather_texts(communicator, call);
  if (std::ranges::all_of(calls, [&](const std::string& other) { return other == call; })) return;
  throw CommError("the ranks' collective calls do not match", who_says_what(calls),
                  "make the same calls in the same order on every rank");
}

class CheckedDeviceSums final : public DeviceSums {
 public:
  CheckedDeviceSums(DeviceSums& inner, const Communicator& communicator) : inner_(inner), communicator_(communicator) {}

  void begin(const DeviceValues& values, cuda::Stream* stream) override {
    check_same_call(communicator_, "sum of " + std::to_string(values.bytes()) + " bytes of the device");
    inner_.begin(values, stream);
  }
  void hold_up(cuda::Stream* stream) override { inner_.hold_up(stream); }
  void finish() override { inner_.finish(); }
  void abort() noexcept override { inner_.abort(); }

 private:
  DeviceSums& inner_;
  const Communicator& communicator_;
};

class CheckedCommunicator final : public Communicator {
 public:
  explicit CheckedCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {
    if (DeviceSums* const sums = inner_->device_sums()) device_sums_.emplace(*sums, *inner_);
  }

  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }

  void allreduce(std::span<float> values, ReduceOp op) const override { reduce(values, op, "float32"); }
  void allreduce(std::span<double> values, ReduceOp op) const override { reduce(values, op, "float64"); }
  void allreduce(std::span<std::int64_t> values, ReduceOp op) const override { reduce(values, op, "int64"); }
  void allreduce_sum_unchecked(std::span<std::int64_t> values) const override {
    check("unchecked sum of " + std::to_string(values.size()) + " int64");
    inner_->allreduce_sum_unchecked(values);
  }
  void reduce_scatter_sum(std::span<float> values, std::span<const std::int64_t> sizes) const override {
    scatter(values, sizes, "float32");
  }
  void reduce_scatter_sum(std::span<double> values, std::span<const std::int64_t> sizes) const override {
    scatter(values, sizes, "float64");
  }
  void reduce_scatter_sum(std::span<std::int64_t> values, std::span<const std::int64_t> sizes) const override {
    scatter(values, sizes, "int64");
  }
  void allgather_slices(std::span<float> values, std::span<const std::int64_t> sizes) const override {
    gather(values, sizes, "float32");
  }
  void allgather_slices(std::span<double> values, std::span<const std::int64_t> sizes) const override {
    gather(values, sizes, "float64");
  }
  void broadcast(std::span<std::byte> bytes, int root) const override {
    check("broadcast of " + std::to_string(bytes.size()) + " bytes from rank " + std::to_string(root));
    inner_->broadcast(bytes, root);
  }
  [[nodiscard]] std::vector<std::vector<std::byte>> allgather(std::span<const std::byte> bytes) const override {
    check("allgather");
    return inner_->allgather(bytes);
  }
  void barrier() const override {
    check("barrier");
    inner_->barrier();
  }
  [[nodiscard]] DeviceSums* device_sums() const override { return device_sums_ ? &*device_sums_ : nullptr; }

 private:
  template <class T>
  void reduce(std::span<T> values, ReduceOp op, const char* dtype) const {
    check(std::string(name(op)) + " of " + std::to_string(values.size()) + " " + dtype);
    inner_->allreduce(values, op);
  }

  template <class T>
  void scatter(std::span<T> values, std::span<const std::int64_t> sizes, const char* dtype) const {
    check("scattered sum of " + lengths(sizes) + " " + dtype);
    inner_->reduce_scatter_sum(values, sizes);
  }
  template <class T>
  void gather(std::span<T> values, std::span<const std::int64_t> sizes, const char* dtype) const {
    check("gathering of " + lengths(sizes) + " " + dtype);
    inner_->allgather_slices(values, sizes);
  }

  static std::string lengths(std::span<const std::int64_t> sizes) {
    std::vector<std::string> texts;
    for (const std::int64_t size : sizes) texts.push_back(std::to_string(size));
    return join(texts, " + ");
  }

  void check(std::string call) const { check_same_call(*inner_, std::move(call)); }

  std::unique_ptr<Communicator> inner_;
  mutable std::optional<CheckedDeviceSums> device_sums_;
};

}  // namespace

std::unique_ptr<Communicator> make_checked_communicator(std::unique_ptr<Communicator> inner) {
  return std::make_unique<CheckedCommunicator>(std::move(inner));
}

}  // namespace ripieno
