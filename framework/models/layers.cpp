#include <ripieno/framework/models/layers.hpp>

#include <ATen/ATen.h>

#include <ripieno/framework/models/initialise.hpp>

namespace ripieno::models {

LayerInit LayerInit::operator[](const std::string& name) const {
  LayerInit inner(seed_);
  inner.path_ = path_.empty() ? name : path_ + "." + name;
  return inner;
}

PyTree LayerInit::linear(std::int64_t out, std::int64_t in) const {
  return {{"bias", initial_values(seed_, path_ + ".bias", {out}, in)},
          {"weight", initial_values(seed_, path_ + ".weight", {out, in}, in)}};
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
