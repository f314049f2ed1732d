#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/mpi_device_sums.hpp>

namespace ripieno {
namespace {

/// Collective. `data` may be of the device where MPI can take that.
void sum_over_mpi(const Communicator& communicator, void* data, const DeviceValues& values) {
  switch (values.type) {
    case DeviceValues::Type::float32:
      return communicator.allreduce_sum(std::span(static_cast<float*>(data), values.count));
    case DeviceValues::Type::float64:
      return communicator.allreduce_sum(std::span(static_cast<double*>(data), values.count));
    case DeviceValues::Type::int64:
      return communicator.allreduce_sum_unchecked(std::span(static_cast<std::int64_t*>(data), values.count));
  }
}

bool all_say_yes(const Communicator& communicator, bool mine) {
  std::array<std::int64_t, 1> no{mine ? 0 : 1};
  communicator.allreduce_max(std::span<std::int64_t>(no));
  return no[0] == 0;
}

/// Device memory for as long as it lives.
class DeviceArray {
 public:
  DeviceArray(const cuda::DeviceApi& api, std::size_t bytes) : api_(api) {
    cuda::check(api_, api_.allocate_device(&memory_, bytes), "cudaMalloc");
  }
  ~DeviceArray() { static_cast<void>(api_.free_device(memory_)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  [[nodiscard]] void* get() const { return memory_; }

 private:
  const cuda::DeviceApi& api_;
  void* memory_ = nullptr;
};

}  // namespace

bool mpi_claims_device_pointers() {
#if defined(OMPI_HAVE_MPI_EXT_CUDA)
  return MPIX_Query_cuda_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_CUDA)  // MPICH and its kin
  int supported = 0;
  return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &supported) == MPI_SUCCESS && supported != 0;
#else
  return false;
#endif
}

bool mpi_takes_device_pointers(const cuda::DeviceApi& api, const Communicator& communicator, int device, bool claims) {
  if (!all_say_yes(communicator, claims)) return false;
  constexpr std::size_t k_count = 1024;
  std::array<float, k_count> numbers{};
  for (std::size_t i = 0; i < k_count; ++i) numbers[i] = static_cast<float>(i + 1);
  const cuda::OwnedStream stream(cuda::with_device(api, device), false);
  const cuda::OwnedEvent copied(api);
  const DeviceArray array(api, sizeof numbers);
  const auto copy = [&](void* to, const void* from) {
    cuda::check(api, api.copy(to, from, sizeof numbers, stream.get()), "cudaMemcpyAsync");
    copied.record(stream.get());
    cuda::wait_until_done(copied);
  };
  copy(array.get(), numbers.data());
  communicator.allreduce_sum(std::span(static_cast<float*>(array.get()), k_count));
  copy(numbers.data(), array.get());
  bool right = true;
  for (std::size_t i = 0; i < k_count; ++i) {
    right = right && numbers[i] == static_cast<float>(i + 1) * static_cast<float>(communicator.size());
  }
  return all_say_yes(communicator, right);
}

MpiDeviceSums::MpiDeviceSums(const cuda::DeviceApi& api, const Communicator& communicator, int device, Path path)
    : api_(cuda::with_device(api, device)),
      communicator_(communicator),
      device_(device),
      path_(path),
      stream_(api, /*high_priority=*/true) {}

void MpiDeviceSums::begin(const DeviceValues& values, cuda::Stream* stream) {
  cuda::check(api_, api_.set_device(device_), "cudaSetDevice");
  if (begun_ == sums_.size()) sums_.emplace_back(api_);
  Sum& sum = sums_[begun_++];
  sum.values = values;
  sum.event.record(stream);
  if (path_ == Path::direct) return;
  sum.host.reserve(values.bytes());
  sum.event.hold_up(stream_.get());
  cuda::check(api_, api_.copy(sum.host.data(), values.data, values.bytes(), stream_.get()), "cudaMemcpyAsync");
  sum.event.record(stream_.get());
}

void MpiDeviceSums::hold_up(cuda::Stream* stream) {
  if (summed_ == begun_) throw UsageError("a wait for a sum that has not begun");
  Sum& sum = sums_[summed_++];
  cuda::wait_until_done(sum.event);
  if (path_ == Path::direct) return sum_over_mpi(communicator_, sum.values.data, sum.values);
  sum_over_mpi(communicator_, sum.host.data(), sum.values);
  cuda::check(api_, api_.copy(sum.values.data, sum.host.data(), sum.values.bytes(), stream_.get()), "cudaMemcpyAsync");
  sum.event.record(stream_.get());
  sum.event.hold_up(stream);
}

void MpiDeviceSums::finish() {
  while (summed_ < begun_) hold_up(stream_.get());
  // The copies back read the page-locked memory, which the next step writes.
  if (path_ == Path::staged) {
    for (std::size_t i = 0; i < begun_; ++i) cuda::wait_until_done(sums_[i].event);
  }
  begun_ = summed_ = 0;
}

}  // namespace ripieno
