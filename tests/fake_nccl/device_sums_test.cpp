#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/mpi_device_sums.hpp>
#include <ripieno/framework/comm/nccl_sums.hpp>
#include <ripieno/framework/comm/rank_texts.hpp>
#include <thread>

#include "fake_device.hpp"
#include "mpi_test.hpp"

namespace ripieno {
namespace {

using ::testing::Contains;
using ::testing::Each;
using testing::fake_calls;
using testing::fake_device_api;
using testing::FakeFaults;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::set_fake_host;
using testing::world;
using namespace std::chrono_literals;

using Clock = std::chrono::steady_clock;

constexpr double k_deadline_s = 1;

NcclLimits limits() { return {.start_s = k_deadline_s, .abort = 300ms}; }

std::unique_ptr<NcclSums> nccl_sums() {
  return std::make_unique<NcclSums>(fake_device_api(), world(), 0, limits(), nullptr);
}

/// 1 + 2 + … + W
double triangle() { return world().size() * (world().size() + 1) / 2.0; }

/// What a rank that fails says; empty when it does not.
template <class F>
std::string complaint(F&& body) {
  try {
    body();
  } catch (const CommError& e) {
    return e.what();
  }
  return {};
}

std::vector<std::string> calls_with(const std::string& part) {
  std::vector<std::string> all = fake_calls();
  std::erase_if(all, [&](const std::string& call) { return call.find(part) == std::string::npos; });
  return all;
}

/// A gradient in buckets: a slow producer on the compute stream, a consumer after each sum. Streams may outlive the
/// test that failed on them, so they own the memory too.
class Buckets {
 public:
  static constexpr std::size_t k_buckets = 5;

  [[nodiscard]] DeviceValues bucket(std::size_t i) const {
    return {.data = values_->data() + i * k_size, .count = k_size, .type = DeviceValues::Type::float32};
  }
  void produce(cuda::Stream* stream) const {
    testing::enqueue(stream, [values = values_] {
      std::this_thread::sleep_for(50ms);
      for (std::size_t i = 0; i < values->size(); ++i) {
        (*values)[i] = static_cast<float>(world().rank() + 1) * static_cast<float>(i);
      }
    });
  }
  void consume(std::size_t i, cuda::Stream* stream) const {
    testing::enqueue(stream, [i, values = values_, seen = seen_] {
      const auto begin = static_cast<std::ptrdiff_t>(i * k_size);
      std::copy_n(values->begin() + begin, k_size, seen->begin() + begin);
    });
  }
  void expect_sums() const {
    for (std::size_t i = 0; i < values_->size(); ++i) {
      ASSERT_EQ((*values_)[i], static_cast<float>(triangle() * static_cast<double>(i)));
      ASSERT_EQ((*seen_)[i], (*values_)[i]);
    }
  }

 private:
  static constexpr std::size_t k_size = 1000;
  std::shared_ptr<std::vector<float>> values_ = std::make_shared<std::vector<float>>(k_buckets * k_size);
  std::shared_ptr<std::vector<float>> seen_ = std::make_shared<std::vector<float>>(k_buckets * k_size);
};

/// Produces, sums and consumes on a stream as a step does.
void run_buckets(DeviceSums& sums, const Buckets& buckets) {
  const cuda::OwnedStream compute(fake_device_api(), false);
  const cuda::OwnedEvent consumed(fake_device_api());
  buckets.produce(compute.get());
  for (std::size_t i = 0; i < Buckets::k_buckets; ++i) sums.begin(buckets.bucket(i), compute.get());
  for (std::size_t i = 0; i < Buckets::k_buckets; ++i) {
    sums.hold_up(compute.get());
    buckets.consume(i, compute.get());
  }
  sums.finish();
  consumed.record(compute.get());
  cuda::wait_until_done(consumed);
}

TEST(NcclSums, WaitForTheirProducersAndHoldUpTheirConsumers) {
  set_fake_host({});
  const auto sums = nccl_sums();
  for (int step = 0; step < 3; ++step) {
    const Buckets buckets;
    run_buckets(*sums, buckets);
    buckets.expect_sums();
  }
}

TEST(NcclSums, GoInTheOrderInWhichTheyBeganOnOneStreamOfHighPriority) {
  set_fake_host({});
  const auto sums = nccl_sums();
  std::array<std::vector<double>, 4> values;
  const cuda::OwnedStream compute(fake_device_api(), false);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i].assign(i + 1, world().rank() + 1.0);
    sums->begin({.data = values[i].data(), .count = i + 1, .type = DeviceValues::Type::float64}, compute.get());
  }
  sums->finish();
  EXPECT_THAT(values.back(), Each(triangle()));
  EXPECT_THAT(fake_calls(), Contains("stream 0 of high priority"));
  EXPECT_THAT(calls_with("all_reduce"),
              ::testing::ElementsAre("all_reduce 1 float64 on stream 0", "all_reduce 2 float64 on stream 0",
                                     "all_reduce 3 float64 on stream 0", "all_reduce 4 float64 on stream 0"));
}

TEST(NcclSums, OfIntegersWrap) {
  set_fake_host({});
  const auto sums = nccl_sums();
  std::array<std::int64_t, 2> values{world().rank() + 1, INT64_MAX};
  const cuda::OwnedStream compute(fake_device_api(), false);
  sums->begin({.data = values.data(), .count = 2, .type = DeviceValues::Type::int64}, compute.get());
  sums->finish();
  EXPECT_EQ(values[0], static_cast<std::int64_t>(triangle()));
  EXPECT_EQ(values[1], static_cast<std::int64_t>(static_cast<std::uint64_t>(INT64_MAX) *
                                                 static_cast<std::uint64_t>(world().size())));
}

TEST(NcclSums, EndInOrder) {
  set_fake_host({});
  nccl_sums().reset();
  EXPECT_THAT(calls_with("comm_"), ::testing::ElementsAre("comm_finalize", "comm_destroy"));
}

TEST(NcclSums, AWaitForASumThatHasNotBegunIsRefused) {
  set_fake_host({});
  const auto sums = nccl_sums();
  const cuda::OwnedStream compute(fake_device_api(), false);
  EXPECT_THROW(sums->hold_up(compute.get()), UsageError);
}

TEST(NcclBootstrap, AnIdThatCannotBeMadeIsToldToEveryRank) {
  set_fake_host({.faults = {.unique_id_fails = true}});
  EXPECT_THAT(complaint([] { nccl_sums(); }),
              HasSubstr("NCCL did not start (rank 0: ncclGetUniqueId: unhandled system error); run with NCCL_DEBUG"));
}

TEST(NcclBootstrap, AStartThatNeverCompletesEndsAtItsDeadlineOnEveryRank) {
  const int last = world().size() - 1;
  set_fake_host({.faults = {.init_never_completes = world().rank() == last}});
  const auto start = Clock::now();
  const std::string text = complaint([] { nccl_sums(); });
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), k_deadline_s + 10);
  EXPECT_THAT(text, HasSubstr("NCCL did not start"));
  EXPECT_THAT(text, HasSubstr("rank " + std::to_string(last) + ": not connected to the others after 1 s"));
  EXPECT_TRUE(same_everywhere(world(), text)) << text;
  EXPECT_THAT(calls_with("comm_"), ::testing::ElementsAre("comm_abort"));
}

TEST(NcclFailure, AnErrorIsNamedAndWhatIsUnderWayAborted) {
  set_fake_host({.faults = {.error_at_sum = 2}});
  const auto sums = nccl_sums();
  const Buckets buckets;
  const std::string text = complaint([&] { run_buckets(*sums, buckets); });
  sums->abort();
  EXPECT_THAT(text, HasSubstr("ncclAllReduce failed (rank " + std::to_string(world().rank()) +
                              ": remote process exited or there was a network error)"));
  EXPECT_THAT(calls_with("comm_"), ::testing::ElementsAre("comm_abort"));
}

TEST(NcclFailure, AnAbortThatHangsIsLeftToItself) {
  set_fake_host({.faults = {.error_at_sum = 0, .abort_hangs = true}});
  const auto start = Clock::now();
  ::testing::internal::CaptureStderr();
  {
    const auto sums = nccl_sums();
    const Buckets buckets;
    EXPECT_THAT(complaint([&] { run_buckets(*sums, buckets); }), HasSubstr("ncclAllReduce failed"));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("ncclCommAbort has not returned after 300 ms"));
  EXPECT_LT(Clock::now() - start, 10s);
  set_fake_host({});  // lets it return
}

TEST(MpiDeviceSums, StageThroughPageLockedMemoryBesideOtherWork) {
  set_fake_host({});
  MpiDeviceSums sums(fake_device_api(), world(), 0, MpiDeviceSums::Path::staged);
  for (int step = 0; step < 2; ++step) {
    const Buckets buckets;
    run_buckets(sums, buckets);
    buckets.expect_sums();
  }
  EXPECT_THAT(calls_with("copy"), Each(HasSubstr("on stream 0")));
}

TEST(MpiDeviceSums, TakeDevicePointersWhereMpiCan) {
  set_fake_host({});
  MpiDeviceSums sums(fake_device_api(), world(), 0, MpiDeviceSums::Path::direct);
  const Buckets buckets;
  run_buckets(sums, buckets);
  buckets.expect_sums();
  EXPECT_THAT(fake_calls(), Not(Contains(HasSubstr("copy"))));
}

TEST(MpiDeviceSums, ProbeBeforeTheyTrustMpiWithDevicePointers) {
  set_fake_host({});
  EXPECT_TRUE(mpi_takes_device_pointers(fake_device_api(), world(), 0, true));
  set_fake_host({});
  EXPECT_FALSE(mpi_takes_device_pointers(fake_device_api(), world(), 0, world().rank() != 0));
  EXPECT_THAT(fake_calls(), ::testing::IsEmpty()) << "an address was tried that not every rank can take";
}

}  // namespace
}  // namespace ripieno
