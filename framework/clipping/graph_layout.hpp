#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <ripieno/framework/clipping/graph_trace.hpp>
#include <ripieno/framework/clipping/per_example_layout.hpp>

namespace ripieno::bookkeeping {

/// Gradients of one tensor from the losses of three examples, one at a time; undefined where nothing arrives.
using OneAtATime = std::array<at::Tensor, 3>;

/// What can be said about the examples in a tensor.
enum class LayoutFinding {
  found,
  mixed,      ///< no arrangement gives every example rows that only its own loss reaches
  ambiguous,  ///< several arrangements fit
};

struct FoundLayout {
  LayoutFinding finding = LayoutFinding::mixed;
  ExampleLayout layout;
};

/// From the tensor's shapes with two and with three examples, exactly one dimension of which must have sizes 2 R and 3
/// R, and from its gradients with three.
[[nodiscard]] FoundLayout find_layout(const Shape& at_two, const Shape& at_three, const OneAtATime& gradients);

}  // namespace ripieno::bookkeeping
