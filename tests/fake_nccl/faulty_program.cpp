// A job of a few steps over fake devices in which one rank fails as the first argument says; the second is that rank.
// faults_test starts it and looks at what comes out.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/cuda/handles.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fake_device.hpp"

namespace {

using ripieno::Backend;
using ripieno::OperationScope;
using ripieno::Runtime;
using ripieno::testing::FakeFaults;
using ripieno::testing::FakeHost;

constexpr double k_deadline_s = 4;
constexpr int k_sums_a_step = 2;

struct Script {
  FakeFaults faults = {};
  bool loiters = false;  ///< never comes to step 1
  bool shares_device = false;
  Backend backend = Backend::automatic;
};

std::map<std::string, Script> scripts() {
  const int in_step_1 = k_sums_a_step;
  return {{"none", {}},
          {"init-never-completes", {.faults = {.init_never_completes = true}}},
          {"error", {.faults = {.error_at_sum = in_step_1}}},
          {"error-and-abort-hangs", {.faults = {.error_at_sum = in_step_1, .abort_hangs = true}}},
          {"hangs", {.faults = {.hang_at_sum = in_step_1}}},
          {"hangs-and-abort-hangs", {.faults = {.hang_at_sum = in_step_1, .abort_hangs = true}}},
          {"dies", {.faults = {.death_at_sum = in_step_1}}},
          {"loiters", {.loiters = true}},
          {"shares-device", {.shares_device = true}},
          {"shares-device-nccl", {.shares_device = true, .backend = Backend::nccl}},
          {"mpi", {.backend = Backend::mpi}}};
}

/// The number of the rank from the launcher: faults are set before MPI starts.
int launched_rank() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank != nullptr ? std::atoi(rank) : 0;
}

void train_step(const Runtime& runtime, int step, std::vector<float>& values, ripieno::cuda::Stream* stream) {
  const OperationScope scope("train", step);
  ripieno::DeviceSums& sums = *runtime.communicator().device_sums();
  const std::size_t half = values.size() / k_sums_a_step;
  for (std::size_t i = 0; i < k_sums_a_step; ++i) sums.begin({.data = values.data() + i * half, .count = half}, stream);
  for (std::size_t i = 0; i < k_sums_a_step; ++i) sums.hold_up(stream);
  sums.finish();
}

int train(const Runtime& runtime, bool loiters) {
  const ripieno::cuda::OwnedStream stream(ripieno::testing::fake_device_api(), false);
  std::vector<float> values(1000, 1);
  for (int step = 0; step < 3; ++step) {
    if (loiters && step == 1) {
      const OperationScope scope("read batch", step);
      std::this_thread::sleep_for(std::chrono::minutes(2));
    }
    train_step(runtime, step, values, stream.get());
  }
  // The state after a failure may hold anything: whoever gets here has seen three whole sums.
  if (runtime.rank() == 0) std::printf("trained over %s: %g\n", runtime.backend(), values.front());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ripieno::log::set_program("faulty-program");
  const Script script = scripts().at(argc > 1 ? argv[1] : "none");
  const bool faulty = launched_rank() == (argc > 2 ? std::atoi(argv[2]) : 0);
  const bool shares = script.shares_device && launched_rank() < 2;
  ripieno::testing::set_fake_host({.pci_bus_ids = {"0000:" + std::to_string(shares ? 0 : launched_rank()) + "b:00.0"},
                                   .faults = faulty ? script.faults : FakeFaults{}});
  const Runtime runtime(argc, argv,
                        {.collective_timeout_s = k_deadline_s,
                         .backend = script.backend,
                         .device_api = &ripieno::testing::fake_device_api()});
  return runtime.run([&] { return train(runtime, faulty && script.loiters); });
}
