#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace ripieno::models {

/// Normal values of mean 0 and variance 1 / (3 fan_in), the variance of PyTorch's default initialisation, for the
/// parameter at the dotted path `path`. A function of (seed, path, index of the element) alone: of no library version,
/// thread count or rank. Returns float32 of that shape.
[[nodiscard]] at::Tensor initial_values(std::uint64_t seed, std::string_view path,
                                        const std::vector<std::int64_t>& shape, std::int64_t fan_in);

}  // namespace ripieno::models
