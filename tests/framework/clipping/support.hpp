#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <string>
#include <vector>

namespace ripieno::testing_support {

/// Tests that hold for every engine: TEST_P over OnEveryEngine.
class OnEveryEngine : public testing::TestWithParam<EngineKind> {
 protected:
  OnEveryEngine() { at::manual_seed(11); }
};

inline std::string engine_name(const testing::TestParamInfo<EngineKind>& info) {
  return std::string(make_engine(info.param)->name());
}

#define RIPIENO_FOR_EVERY_ENGINE(suite)    \
  INSTANTIATE_TEST_SUITE_P(Engines, suite, \
                           testing::Values(EngineKind::loop, EngineKind::bookkeeping, EngineKind::vmap), engine_name)

inline at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  return -logits.log_softmax(-1).gather(1, labels.unsqueeze(1)).squeeze(1);
}

/// Classifier with one hidden layer: w1 [hidden, in], b1, w2 [classes, hidden], b2.
inline at::Tensor mlp_loss(const PyTree& p, const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor hidden = at::linear(x, p["w1"], p["b1"]).tanh();
  return cross_entropy(at::linear(hidden, p["w2"], p["b2"]), y);
}

inline PyTree mlp_params(std::int64_t in, std::int64_t hidden, std::int64_t classes,
                         at::ScalarType dtype = at::kFloat) {
  const auto random = [dtype](at::IntArrayRef shape) { return at::randn(shape, dtype) * 0.5; };
  return PyTree{{"w1", random({hidden, in})},
                {"b1", random({hidden})},
                {"w2", random({classes, hidden})},
                {"b2", random({classes})}};
}

/// L2 norm in extended precision (64-bit significand and a 15-bit exponent): squares of float32 values are exact, and
/// none of float64 over- or underflows.
inline long double exact_norm(const at::Tensor& values) {
  const at::Tensor wide = values.to(at::kDouble).contiguous();
  long double squares = 0;
  for (std::int64_t i = 0; i < wide.numel(); ++i) {
    const long double value = wide.data_ptr<double>()[i];
    squares += value * value;
  }
  return std::sqrt(squares);
}

}  // namespace ripieno::testing_support
