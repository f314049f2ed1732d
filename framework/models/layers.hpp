#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/core/pytree.hpp>
#include <string>
#include <vector>

namespace ripieno::models {

/// Makes the initial parameters of the layer at a dotted path.
class LayerInit {
 public:
  explicit LayerInit(std::uint64_t seed) : seed_(seed) {}

  /// Of a layer inside this one.
  [[nodiscard]] LayerInit operator[](const std::string& name) const;

  /// {bias [out], weight [out, in, …]} of a layer whose outputs each see all of `in, …`
  [[nodiscard]] PyTree affine(const std::vector<std::int64_t>& weight_shape) const;
  [[nodiscard]] PyTree linear(std::int64_t out, std::int64_t in) const { return affine({out, in}); }
  /// [out, in, kernel, kernel], without a bias
  [[nodiscard]] at::Tensor kernel(std::int64_t out, std::int64_t in, std::int64_t side) const;
  /// [count, width] rows of unit-variance entries over the square root of the width
  [[nodiscard]] at::Tensor table(std::int64_t count, std::int64_t width) const;
  /// {bias 0, weight 1} of a normalisation of that many channels
  [[nodiscard]] static PyTree norm(std::int64_t channels);

 private:
  std::uint64_t seed_;
  std::string path_;
};

/// x [n, …, in] to [n, …, out] by the parameters of LayerInit::linear.
[[nodiscard]] at::Tensor linear(const at::Tensor& x, const PyTree& params);

}  // namespace ripieno::models
