#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <string>
#include <vector>

#include "support.hpp"

// Cases of tests/data/a_clipped_grad_{mlp,conv}.json.

namespace ripieno::testing_support {

inline at::Tensor tensor_of(const Json& entry, at::ScalarType dtype) {
  return at::tensor(entry.at("data").get<std::vector<double>>(), at::kDouble)
      .reshape(entry.at("shape").get<std::vector<std::int64_t>>())
      .to(dtype);
}

inline at::Tensor conv_loss(const PyTree& p, const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor features = at::max_pool2d(at::conv2d(x, p["cw"], p["cb"]).relu(), {2, 2});
  return cross_entropy(at::linear(features.flatten(1), p["fw"], p["fb"]), y);
}

/// One recorded case: parameters and examples of one dtype.
struct Case {
  explicit Case(const Json& recorded)
      : dtype(recorded.at("dtype") == "float64" ? at::kDouble : at::kFloat),
        x(tensor_of(recorded.at("x"), dtype)),
        y(at::tensor(recorded.at("y").get<std::vector<std::int64_t>>())) {
    PyTree::Dict leaves;
    for (const auto& [name, entry] : recorded.at("params").items()) leaves.emplace(name, tensor_of(entry, dtype));
    params = PyTree(leaves);
  }

  at::ScalarType dtype;
  at::Tensor x, y;
  PyTree params;
};

/// The recorded implementation rounds the bound down to float32, in every dtype.
inline double rounded_down_to_float(double value) {
  const auto nearest = static_cast<float>(value);
  return nearest <= value ? nearest : std::nextafter(nearest, 0.0F);
}

inline void expect_close(const at::Tensor& actual, const std::vector<double>& expected, double relative,
                         double absolute) {
  const at::Tensor values = actual.to(at::kDouble).flatten().contiguous();
  ASSERT_EQ(values.numel(), static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(values.data_ptr<double>()[i], expected[i], relative * std::abs(expected[i]) + absolute)
        << "element " << i;
}

}  // namespace ripieno::testing_support
