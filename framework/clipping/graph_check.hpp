#pragma once

#include <ATen/core/ScalarType.h>

#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/clipping/graph_plan.hpp>
#include <ripieno/framework/clipping/graph_synthetic.hpp>

namespace ripieno::bookkeeping {

/// Runs a plan on made-up examples before it sees private ones, with gradients in either form, and notes how much
/// memory they take. UsageError unless
/// - norms and clipped sum agree with one backward pass per example through the same graph;
/// - another third example, or one of NaN, leaves losses and gradients of the first two as they are;
/// - the loss of an example alone is its loss in the batch (left out when the loss draws random numbers).
/// Not found by nature: a mixing of examples that only other values switch on.
void check_plan(const LossFn& loss, const MadeUpExamples& examples, Plan& plan, at::ScalarType stored);

}  // namespace ripieno::bookkeeping
