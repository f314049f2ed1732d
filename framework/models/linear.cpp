#include <ATen/ATen.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/models/arguments.hpp>
#include <ripieno/framework/models/builders.hpp>
#include <ripieno/framework/models/initialise.hpp>
#include <ripieno/framework/models/oriented_gradients.hpp>

namespace ripieno::models {
namespace {

// Size of the features of one example; UsageError when the map does not take such examples.
std::int64_t oriented_gradients_inputs(const ModelSpec& spec) {
  const ImageShape image = image_shape(spec);
  if (image.channels != 1) {
    throw UsageError(
        "features=oriented-gradients cannot take images of " + std::to_string(image.channels) + " channels",
        "it is defined for one channel", "leave the argument out");
  }
  return oriented_gradients_size(image.height, image.width);
}

PyTree linear_params(const ModelSpec& spec, std::int64_t inputs, bool bias, bool random) {
  PyTree::Dict params;
  params.emplace("weight", random ? initial_values(spec.seed, "weight", {spec.num_classes, inputs}, inputs)
                                  : at::zeros({spec.num_classes, inputs}, at::kFloat));
  if (bias) params.emplace("bias", at::zeros({spec.num_classes}, at::kFloat));
  return PyTree(std::move(params));
}

}  // namespace

Model make_linear(const ModelSpec& spec) {
  const Arguments arguments(spec, {"bias", "features", "init"});
  const bool oriented = arguments.choice("features", {"none", "oriented-gradients"}) == "oriented-gradients";
  const bool bias = arguments.flag("bias", true);
  const bool random = arguments.choice("init", {"zero", "random"}) == "random";
  const std::int64_t inputs = oriented ? oriented_gradients_inputs(spec) : example_size(spec);

  Model model{.name = spec.name, .params = linear_params(spec, inputs, bias, random), .forward = {}, .feature_map = {}};
  model.forward = [name = spec.name, inputs, bias](const PyTree& p, const at::Tensor& x) {
    const at::Tensor rows = as_examples(x, name, {inputs});
    return bias ? at::linear(rows, p["weight"], p["bias"]) : at::linear(rows, p["weight"]);
  };
  if (oriented) model.feature_map = oriented_gradients;
  return model;
}

}  // namespace ripieno::models
