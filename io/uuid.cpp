#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/uuid.hpp>
#include <system_error>

namespace ripieno::io {
namespace {

using Bytes = std::array<std::uint8_t, 16>;

std::string format_uuid(Bytes bytes, std::uint8_t version) {
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0f) | (version << 4));
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3f) | 0x80);
  std::string text = to_hex(bytes);
  for (const std::size_t dash : {20, 16, 12, 8}) text.insert(dash, 1, '-');
  return text;
}

}  // namespace

std::string random_uuid() {
  Bytes bytes{};
  while (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return format_uuid(bytes, 4);
}

std::string uuid_of(std::string_view text) {
  const Sha256::Digest digest = sha256(text);
  Bytes bytes{};
  std::copy_n(digest.begin(), bytes.size(), bytes.begin());
  return format_uuid(bytes, 8);
}

}  // namespace ripieno::io
