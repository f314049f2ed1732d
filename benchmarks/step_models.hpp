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

/// "wrn-16-4", "transformer-100m": too large for a processor to step through in a second.
[[nodiscard]] const std::vector<std::string>& large_workload_names();

/// One of all these; std::invalid_argument for another name.
[[nodiscard]] Workload make_workload(const std::string& name);

}  // namespace ripieno::benchmark
