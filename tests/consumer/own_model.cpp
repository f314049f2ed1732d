// ripieno-train around a model of one's own: logistic regression on the pixels.
#include <ATen/ATen.h>

#include <ripieno/ripieno.hpp>

namespace {

ripieno::Model make_logistic(const ripieno::ModelSpec& spec) {
  std::int64_t pixels = 1;
  for (const std::int64_t size : spec.example_shape) pixels *= size;
  return {.name = "logistic",
          .params = ripieno::PyTree{{"weight", at::zeros({spec.num_classes, pixels})},
                                    {"bias", at::zeros({spec.num_classes})}},
          .forward = [](const ripieno::PyTree& p,
                        const ripieno::Tensor& x) { return at::linear(x.flatten(1), p["weight"], p["bias"]); },
          .feature_map = {}};
}

}  // namespace

int main(int argc, char** argv) { return ripieno::train_main(argc, argv, make_logistic); }
