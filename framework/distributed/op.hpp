#pragma once

namespace ripieno::distributed {

/// How the ranks' values become one. `mean` divides the sum by the number of ranks.
enum class Op { sum, mean, max, min, product };

/// "sum", "mean", …
[[nodiscard]] constexpr const char* name(Op op) noexcept {
  switch (op) {
    case Op::sum:
      return "sum";
    case Op::mean:
      return "mean";
    case Op::max:
      return "max";
    case Op::min:
      return "min";
    case Op::product:
      return "product";
  }
  return "unknown";
}

}  // namespace ripieno::distributed
