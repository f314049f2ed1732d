#pragma once

#include <string>
#include <string_view>

namespace ripieno::io {

/// A random UUID (RFC 9562, version 4) from the operating system's entropy.
[[nodiscard]] std::string random_uuid();
/// A UUID (RFC 9562, version 8) that is a function of `text`: the first bits of its SHA-256.
[[nodiscard]] std::string uuid_of(std::string_view text);

}  // namespace ripieno::io
