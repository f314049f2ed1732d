#include <ripieno/framework/optim/state.hpp>

#include <ATen/ATen.h>

#include <algorithm>

namespace ripieno::optim {
namespace {

bool equal_trees(const PyTree& a, const PyTree& b) {
  return a.same_structure(b) &&
         std::ranges::equal(a.leaves(), b.leaves(), [](const at::Tensor& left, const at::Tensor& right) {
           return left.scalar_type() == right.scalar_type() && at::equal(left, right);
         });
}

}  // namespace

bool operator==(const OptimizerState& a, const OptimizerState& b) {
  return a.step == b.step && a.phi == b.phi &&
         std::ranges::equal(a.slots, b.slots, [](const auto& left, const auto& right) {
           return left.first == right.first && equal_trees(left.second, right.second);
         });
}

OptimizerState copied(const OptimizerState& state) {
  OptimizerState copy = state;
  for (auto& [name, tree] : copy.slots) {
    tree = tree.map([](const at::Tensor& leaf) { return leaf.clone(at::MemoryFormat::Contiguous); });
  }
  return copy;
}

}  // namespace ripieno::optim
