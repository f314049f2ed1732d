#include <ripieno/framework/models/layers.hpp>

#include <ATen/ATen.h>

#include <functional>
#include <numeric>
#include <ripieno/framework/models/initialise.hpp>

namespace ripieno::models {

LayerInit LayerInit::operator[](const std::string& name) const {
  LayerInit inner(seed_);
  inner.path_ = path_.empty() ? name : path_ + "." + name;
  return inner;
}

PyTree LayerInit::affine(const std::vector<std::int64_t>& weight_shape) const {
  const std::int64_t fan_in =
      std::accumulate(weight_shape.begin() + 1, weight_shape.end(), std::int64_t{1}, std::multiplies<>());
  return {{"bias", initial_values(seed_, path_ + ".bias", {weight_shape[0]}, fan_in)},
          {"weight", initial_values(seed_, path_ + ".weight", weight_shape, fan_in)}};
}

at::Tensor LayerInit::kernel(std::int64_t out, std::int64_t in, std::int64_t side) const {
  return initial_values(seed_, path_, {out, in, side, side}, in * side * side);
}

at::Tensor LayerInit::table(std::int64_t count, std::int64_t width) const {
  constexpr double k_to_unit_variance = 1.7320508075688772;  // initial_values have a third of 1 / fan-in
  return initial_values(seed_, path_, {count, width}, width) * k_to_unit_variance;
}

PyTree LayerInit::norm(std::int64_t channels) {
  return {{"bias", at::zeros({channels})}, {"weight", at::ones({channels})}};
}

at::Tensor linear(const at::Tensor& x, const PyTree& params) { return at::linear(x, params["weight"], params["bias"]); }

}  // namespace ripieno::models
