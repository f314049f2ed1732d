#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ripieno/io/dtype.hpp>
#include <span>

namespace ripieno::io {

/// Values [0, num_classes) and, where given, one more that stands for "no label".
struct LabelRange {
  std::int64_t num_classes = 0;  ///< 0: unknown, everything is allowed
  std::optional<std::int64_t> ignore_index;

  [[nodiscard]] bool known() const noexcept { return num_classes > 0; }
  [[nodiscard]] bool contains(std::int64_t label) const noexcept {
    return !known() || (label >= 0 && label < num_classes) || label == ignore_index;
  }
};

/// Index of the first NaN or infinity among the f16 or f32 elements in `bytes`.
[[nodiscard]] std::optional<std::int64_t> find_non_finite(std::span<const std::byte> bytes, DType dtype);
/// Index of the first integer element outside the range.
[[nodiscard]] std::optional<std::int64_t> find_outside(std::span<const std::byte> bytes, DType dtype,
                                                       const LabelRange& range);

}  // namespace ripieno::io
