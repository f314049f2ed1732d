#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <ripieno/framework/core/pytree.hpp>
#include <string>

namespace ripieno {

/// A model's forward pass: logits of examples.
using Forward = std::function<at::Tensor(const PyTree& params, const at::Tensor& x)>;

/// UsageError unless `precision` is fp32 or bf16; for fp16 it says why that is not offered.
void check_precision(const std::string& precision);

/// The same forward pass under autocast: matrix products and convolutions in bfloat16, from float32 parameters, with
/// logits in float32. Gradients reach the parameters in float32; norms, clipping, sums, noise and updates are as ever,
/// so the guarantee does not depend on it.
[[nodiscard]] Forward in_bfloat16(Forward forward);

}  // namespace ripieno
