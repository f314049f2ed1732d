#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace ripieno {

/// What one rank drew at one step. `auto [x, y] = batch` takes the tensors out.
struct Batch {
  at::Tensor x, y;                ///< [n, ...]; n = 0 is an ordinary draw
  std::vector<std::int64_t> ids;  ///< global example ids, ascending, [n]
  std::int64_t step = 0;
  /// Of sequences, which x holds padded to the longest, [n]; empty where all examples have one shape.
  std::vector<std::int64_t> lengths{};
};

template <std::size_t i>
[[nodiscard]] const at::Tensor& get(const Batch& batch) {
  static_assert(i < 2);
  if constexpr (i == 0) {
    return batch.x;
  } else {
    return batch.y;
  }
}
template <std::size_t i>
[[nodiscard]] at::Tensor& get(Batch& batch) {
  return const_cast<at::Tensor&>(get<i>(std::as_const(batch)));
}
template <std::size_t i>
[[nodiscard]] at::Tensor&& get(Batch&& batch) {
  return std::move(get<i>(batch));
}

}  // namespace ripieno

template <>
struct std::tuple_size<ripieno::Batch> : std::integral_constant<std::size_t, 2> {};
template <std::size_t i>
struct std::tuple_element<i, ripieno::Batch> {
  using type = at::Tensor;
};
