#include <ripieno/framework/models/initialise.hpp>

#include <ATen/ATen.h>

#include <cmath>
#include <ripieno/framework/random/key.hpp>
#include <ripieno/framework/random/normal.hpp>
#include <span>

namespace ripieno::models {

at::Tensor initial_values(std::uint64_t seed, std::string_view path, const std::vector<std::int64_t>& shape,
                          std::int64_t fan_in) {
  at::Tensor values = at::empty(shape, at::kFloat);
  const std::span<float> elements(values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel()));
  const double stddev = 1 / std::sqrt(3 * static_cast<double>(fan_in));
  fill_normal(elements, fold_in(key(seed), "model initialisation", path), 0, 0, stddev);
  return values;
}

}  // namespace ripieno::models
