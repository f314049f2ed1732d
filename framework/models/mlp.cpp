#include <ATen/ATen.h>

#include <ripieno/framework/models/arguments.hpp>
#include <ripieno/framework/models/builders.hpp>
#include <ripieno/framework/models/layers.hpp>

namespace ripieno::models {
namespace {

// Layers of the widths given, from one to the next.
PyTree mlp_params(std::uint64_t seed, const std::vector<std::int64_t>& widths) {
  PyTree::List layers;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    layers.push_back(LayerInit(seed)["layers." + std::to_string(i)].linear(widths[i + 1], widths[i]));
  }
  return PyTree{{"layers", PyTree(std::move(layers))}};
}

at::Tensor mlp_logits(const PyTree& params, at::Tensor x, bool tanh) {
  const PyTree::List& layers = params["layers"].list();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) x = tanh ? at::tanh(x) : at::relu(x);
    x = linear(x, layers[i]);
  }
  return x;
}

}  // namespace

Model make_mlp(const ModelSpec& spec) {
  const Arguments arguments(spec, {"activation", "hidden"});
  const bool tanh = arguments.choice("activation", {"relu", "tanh"}) == "tanh";
  const std::int64_t inputs = example_size(spec);
  std::vector<std::int64_t> widths = arguments.sizes("hidden", "1024,1024");
  widths.insert(widths.begin(), inputs);
  widths.push_back(spec.num_classes);

  return {.name = spec.name,
          .params = mlp_params(spec.seed, widths),
          .forward = [name = spec.name, inputs, tanh](
                         const PyTree& p,
                         const at::Tensor& x) { return mlp_logits(p, as_examples(x, name, {inputs}), tanh); },
          .feature_map = {}};
}

}  // namespace ripieno::models
