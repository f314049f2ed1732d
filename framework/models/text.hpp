#pragma once

#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <string>

namespace ripieno {

/// "[2, 1, 28, 28]"
[[nodiscard]] inline std::string shape_text(c10::ArrayRef<std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

}  // namespace ripieno
