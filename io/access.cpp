#include <sys/vfs.h>

#include <array>
#include <cstdint>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/access.hpp>
#include <string>
#include <utility>

namespace ripieno::io {
namespace {

// f_type of statfs(2): from the kernel's magic.h and, for those outside the kernel, from their own sources.
constexpr std::array<std::pair<std::uint32_t, std::string_view>, 14> k_network{{{0x6969, "nfs"},
                                                                                {0x0bd00bd0, "lustre"},
                                                                                {0x47504653, "gpfs"},
                                                                                {0x19830326, "beegfs"},
                                                                                {0xff534d42, "cifs"},
                                                                                {0xfe534d42, "smb2"},
                                                                                {0x517b, "smb"},
                                                                                {0x00c36400, "ceph"},
                                                                                {0x5346414f, "afs"},
                                                                                {0x6b414653, "kafs"},
                                                                                {0x01021997, "9p"},
                                                                                {0x20030528, "orangefs"},
                                                                                {0x65735546, "fuse"},
                                                                                {0x01161970, "gfs2"}}};

}  // namespace

Access parse_access(std::string_view name) {
  if (name == "auto") return Access::automatic;
  if (name == "mmap") return Access::mmap;
  if (name == "pread") return Access::pread;
  throw UsageError("unknown way of reading '" + std::string(name) + "'", {}, "use auto, mmap or pread");
}

std::string_view network_file_system(const std::filesystem::path& path) {
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return {};
  for (const auto& [type, name] : k_network) {
    if (static_cast<std::uint32_t>(status.f_type) == type) return name;
  }
  return {};
}

Access resolve(Access access, const std::filesystem::path& path) {
  if (access != Access::automatic) return access;
  return network_file_system(path).empty() ? Access::mmap : Access::pread;
}

}  // namespace ripieno::io
