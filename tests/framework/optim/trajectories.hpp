#pragma once

#include <ATen/ATen.h>

#include <ripieno/accounting/base/json.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <string>
#include <vector>

namespace ripieno::testing {

/// The recorded gradients of tests/data/optimizers.json, in one dtype.
struct Trajectories {
  PyTree params;
  std::vector<PyTree> gradients, squares;
  std::vector<double> stddevs;
};

inline const Json& trajectory_file() {
  static const Json file = read_json(std::string(RIPIENO_TEST_DATA) + "/optimizers.json");
  return file;
}

/// A recorded tree {"b": [3], "w": [3, 4]}.
inline PyTree recorded_tree(const Json& tree, at::ScalarType dtype) {
  const auto tensor = [dtype](const Json& values) {
    return at::tensor(values.get<std::vector<double>>(), at::kDouble).to(dtype);
  };
  return PyTree{{"b", tensor(tree.at("b"))}, {"w", tensor(tree.at("w")).reshape({3, 4})}};
}

inline Trajectories read_trajectories(at::ScalarType dtype) {
  const Json& file = trajectory_file();
  const Json& initial = file.at("params0");
  Trajectories read;
  read.params = recorded_tree({{"b", initial.at("b").at("data")}, {"w", initial.at("w").at("data")}}, dtype);
  for (const Json& gradient : file.at("grads")) read.gradients.push_back(recorded_tree(gradient, dtype));
  for (const Json& squares : file.at("squared_grads")) read.squares.push_back(recorded_tree(squares, dtype));
  read.stddevs = file.at("sigma").get<std::vector<double>>();
  return read;
}

inline PyTree copy_of(const PyTree& tree) {
  return tree.map([](const at::Tensor& leaf) { return leaf.clone(); });
}

}  // namespace ripieno::testing
