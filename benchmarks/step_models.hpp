#pragma once

#include <ATen/core/Tensor.h>

#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <string>
#include <vector>

namespace ripieno::benchmark {

/// A model with random parameters and one batch of random data.
struct Workload {
  std::string name;
  PyTree params;
  std::vector<at::Tensor> batch;
  LossFn loss;
};

/// "mlp-256", "mlp-2048", "cnn-256", "cnn-2048", "transformer", "resnet", "lstm"
[[nodiscard]] const std::vector<std::string>& workload_names();

/// One of them; std::invalid_argument for another name.
[[nodiscard]] Workload make_workload(const std::string& name);

}  // namespace ripieno::benchmark
