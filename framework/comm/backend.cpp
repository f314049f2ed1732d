#include <algorithm>
#include <array>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/backend.hpp>
#include <ripieno/framework/comm/rank_texts.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <vector>

namespace ripieno {
namespace {

bool has_device(const DevicePlace& place) { return place.device >= 0; }

std::string name_ranks(const std::vector<std::string>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(ranks);
}

/// "ranks 2, 3 on n2 (no CUDA-capable device is detected)"
std::string ranks_without_device(std::span<const HostEntry> hosts, std::span<const DevicePlace> places) {
  std::map<std::string, std::vector<std::string>> ranks;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!has_device(places[i])) ranks[hosts[i].host + " (" + places[i].why_none + ")"].push_back(std::to_string(i));
  }
  std::vector<std::string> parts;
  for (const auto& [where, who] : ranks) parts.push_back(name_ranks(who) + " on " + where);
  return join(parts, "; ");
}

/// "ranks 0, 1 on n1 share device 0000:1b:00.0"; empty when no two share one.
std::string shared_devices(std::span<const HostEntry> hosts, std::span<const DevicePlace> places) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> owners;
  for (std::size_t i = 0; i < places.size(); ++i) {
    owners[{hosts[i].host, places[i].pci_bus_id}].push_back(std::to_string(i));
  }
  std::vector<std::string> parts;
  for (const auto& [device, ranks] : owners) {
    if (ranks.size() > 1) {
      parts.push_back(name_ranks(ranks) + " on " + device.first + " share device " + device.second);
    }
  }
  return join(parts, "; ");
}

constexpr std::string_view k_one_rank_a_device =
    "start as many ranks on a host as it has devices, or let each see devices of its own (srun --gpus-per-task=1)";

}  // namespace

DevicePlace place_of(const cuda::DeviceApi* api, int local_rank) {
  DevicePlace place;
  if (api == nullptr) {
    place.why_none = "this build has no CUDA";
    return place;
  }
  int count = 0;
  if (const auto status = api->get_device_count(&count); status != cuda::CudaStatus::success) {
    place.why_none = api->cuda_error_text(status);
    return place;
  }
  if (count == 0) {
    place.why_none = "no CUDA device is visible";
    return place;
  }
  const int device = local_rank % count;
  std::array<char, 32> bus{};
  auto status = api->set_device(device);
  if (status == cuda::CudaStatus::success) {
    status = api->get_pci_bus_id(bus.data(), static_cast<int>(bus.size()), device);
  }
  if (status != cuda::CudaStatus::success) {
    place.why_none = "device " + std::to_string(device) + ": " + api->cuda_error_text(status);
    return place;
  }
  place.device = device;
  place.pci_bus_id = bus.data();
  return place;
}

std::vector<DevicePlace> gather_places(const Communicator& communicator, const DevicePlace& mine) {
  const Json text{{"device", mine.device}, {"bus", mine.pci_bus_id}, {"why_none", mine.why_none}};
  std::vector<DevicePlace> places;
  for (const std::string& of_rank : gather_texts(communicator, text.dump())) {
    const Json json = Json::parse(of_rank);
    places.push_back({json.at("device"), json.at("bus"), json.at("why_none")});
  }
  return places;
}

BackendChoice choose_backend(Backend wanted, std::span<const HostEntry> hosts, std::span<const DevicePlace> places) {
  const auto with_device = std::ranges::count_if(places, has_device);
  if (with_device == 0) {
    if (wanted != Backend::nccl) return {};
    throw UsageError("--backend nccl without a device", ranks_without_device(hosts, places), "give --backend mpi");
  }
  if (with_device < std::ssize(places)) {
    throw UsageError("some ranks have a CUDA device and others none", ranks_without_device(hosts, places),
                     "give every rank one, or hide all with CUDA_VISIBLE_DEVICES=");
  }
  if (wanted == Backend::mpi) return {.on_devices = true};
  const std::string shared = shared_devices(hosts, places);
  if (shared.empty()) return {.on_devices = true, .nccl = true};
  const std::string why = shared + ", and NCCL takes one rank on each";
  if (wanted == Backend::nccl) {
    throw UsageError("--backend nccl with two ranks on one device", why, std::string(k_one_rank_a_device));
  }
  return {.on_devices = true, .note = "gradients travel over MPI: " + why + "; " + std::string(k_one_rank_a_device)};
}

}  // namespace ripieno
