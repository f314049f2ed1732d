#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/backend.hpp>
#include <ripieno/framework/comm/runtime.hpp>

#include "fake_device.hpp"

namespace ripieno {
namespace {

using testing::fake_device_api;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::set_fake_host;

const std::vector<HostEntry> k_hosts{{0, 0, "n1"}, {1, 1, "n1"}, {2, 0, "n2"}, {3, 1, "n2"}};

std::vector<DevicePlace> places(const std::vector<std::string>& pci_bus_ids) {
  std::vector<DevicePlace> all;
  for (const std::string& id : pci_bus_ids) {
    all.push_back(id.empty() ? DevicePlace{.why_none = "no driver"} : DevicePlace{.device = 0, .pci_bus_id = id});
  }
  return all;
}

std::string refusal(Backend wanted, const std::vector<std::string>& pci_bus_ids) {
  try {
    static_cast<void>(choose_backend(wanted, k_hosts, places(pci_bus_ids)));
  } catch (const UsageError& e) {
    return e.what();
  }
  return "none";
}

TEST(DevicePlaceTest, IsTheLocalRankModuloTheVisibleDevices) {
  set_fake_host({.pci_bus_ids = {"0000:1b:00.0", "0000:2c:00.0", "0000:3d:00.0"}});
  for (const auto& [local_rank, device] : {std::pair(0, 0), std::pair(2, 2), std::pair(3, 0), std::pair(7, 1)}) {
    EXPECT_EQ(place_of(&fake_device_api(), local_rank).device, device);
  }
  EXPECT_EQ(place_of(&fake_device_api(), 4).pci_bus_id, "0000:2c:00.0");
  EXPECT_EQ(testing::fake_calls().back(), "device 1");
}

TEST(DevicePlaceTest, SaysWhyThereIsNone) {
  EXPECT_EQ(place_of(nullptr, 0).why_none, "this build has no CUDA");
  set_fake_host({.pci_bus_ids = {}});
  const DevicePlace none = place_of(&fake_device_api(), 0);
  EXPECT_EQ(none.device, -1);
  EXPECT_EQ(none.why_none, "no CUDA device is visible");
}

TEST(ChooseBackend, IsNcclWhereEveryRankHasADeviceOfItsOwn) {
  // Devices of different hosts may have the same bus id.
  const auto own = places({"0000:1b:00.0", "0000:2c:00.0", "0000:1b:00.0", "0000:2c:00.0"});
  for (const Backend wanted : {Backend::automatic, Backend::nccl}) {
    const BackendChoice choice = choose_backend(wanted, k_hosts, own);
    EXPECT_TRUE(choice.on_devices);
    EXPECT_TRUE(choice.nccl);
    EXPECT_THAT(choice.note, IsEmpty());
  }
  const BackendChoice mpi = choose_backend(Backend::mpi, k_hosts, own);
  EXPECT_TRUE(mpi.on_devices);
  EXPECT_FALSE(mpi.nccl);
}

TEST(ChooseBackend, WorksOnProcessorsWhereThereAreNoDevices) {
  const BackendChoice choice = choose_backend(Backend::automatic, k_hosts, places({"", "", "", ""}));
  EXPECT_FALSE(choice.on_devices);
  EXPECT_FALSE(choice.nccl);
  EXPECT_THAT(choice.note, IsEmpty());
  EXPECT_THAT(refusal(Backend::nccl, {"", "", "", ""}),
              HasSubstr("--backend nccl without a device (ranks 0, 1 on n1 (no driver); ranks 2, 3 on n2 (no driver)); "
                        "give --backend mpi"));
}

TEST(ChooseBackend, TwoRanksOnOneDeviceFallToMpiWithAWordOrAreRefused) {
  const std::vector<std::string> shared{"0000:1b:00.0", "0000:1b:00.0", "0000:1b:00.0", "0000:2c:00.0"};
  const BackendChoice choice = choose_backend(Backend::automatic, k_hosts, places(shared));
  EXPECT_TRUE(choice.on_devices);
  EXPECT_FALSE(choice.nccl);
  EXPECT_THAT(choice.note, HasSubstr("gradients travel over MPI: ranks 0, 1 on n1 share device 0000:1b:00.0"));
  EXPECT_THAT(refusal(Backend::nccl, shared), HasSubstr("ranks 0, 1 on n1 share device 0000:1b:00.0"));
  EXPECT_THAT(refusal(Backend::mpi, shared), HasSubstr("none"));
}

TEST(ChooseBackend, RefusesToMixDevicesAndProcessors) {
  for (const Backend wanted : {Backend::automatic, Backend::mpi, Backend::nccl}) {
    EXPECT_THAT(refusal(wanted, {"0000:1b:00.0", "0000:2c:00.0", "", "0000:2c:00.0"}),
                HasSubstr("some ranks have a CUDA device and others none (rank 2 on n2 (no driver))"));
  }
}

}  // namespace
}  // namespace ripieno
