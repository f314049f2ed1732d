#pragma once

#include <ATen/core/Tensor.h>

namespace ripieno::bookkeeping {

/// What is proven of |G_i|^2 for G_i = sum_r u_r v_r^T, the sum of one example's outer products in real arithmetic.
struct GramNorms {
  at::Tensor upper;  ///< float64 [n]: at least |G_i|^2; not finite only where a factor is not
  at::Tensor lower;  ///< float64 [n]: at most |G_i|^2, and at least 0
  at::Tensor terms;  ///< float64 [n]: at least (sum_r |u_r| |v_r|)^2
};

/// Norms of sums of outer products from the inner products of their factors, without forming a sum:
/// |G|^2 = sum_{r,s} (u_r . u_s)(v_r . v_s) ("ghost norm", Goodfellow 2015; Li et al., "Large Language Models Can Be
/// Strong Differentially Private Learners", 2022). u [n, heads, rows, m], v [n, heads, rows, k], one dtype (float32 or
/// float64). Parallel over examples only, with a fixed order of additions.
///
/// The products cancel where the rows of an example oppose each other, so the computed square comes with a bound of its
/// forward error (derived in per_example_gram.cpp): |computed - |G|^2| <= E, upper = computed + E, lower = computed -
/// E.
[[nodiscard]] GramNorms gram_norms(const at::Tensor& u, const at::Tensor& v);

}  // namespace ripieno::bookkeeping
