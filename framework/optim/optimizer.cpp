#include <ripieno/framework/optim/optimizer.hpp>

#include <ATen/ATen.h>

#include <ripieno/accounting/base/error.hpp>
#include <string>
#include <vector>

namespace ripieno {
namespace {

// at::add would broadcast a leaf of another shape.
void check_fit(const PyTree& params, const PyTree& updates) {
  check_same_structure(params, updates, "parameters and updates");
  const std::vector<at::Tensor> param_leaves = params.leaves();
  const std::vector<at::Tensor> update_leaves = updates.leaves();
  for (std::size_t i = 0; i < param_leaves.size(); ++i) {
    if (param_leaves[i].sizes() != update_leaves[i].sizes()) {
      throw UsageError("parameter '" + params.paths()[i] + "' and its update have different shapes");
    }
  }
}

}  // namespace

namespace optim {

std::optional<double> Gradient::noise_stddev(const std::string& path) const {
  if (noised_ == nullptr) return 0.0;
  if (noised_->group_stddevs()) return noised_->group_stddevs()->at(path);
  return noised_->noise_stddev();
}

}  // namespace optim

PyTree apply_updates(const PyTree& params, const PyTree& updates) {
  check_fit(params, updates);
  return PyTree::map([](const at::Tensor& param,
                        const at::Tensor& update) { return at::add(param.detach(), update.to(param.scalar_type())); },
                     params, updates);
}

void apply_updates_(const PyTree& params, const PyTree& updates) {
  check_fit(params, updates);
  const std::vector<at::Tensor> param_leaves = params.leaves();
  const std::vector<at::Tensor> update_leaves = updates.leaves();
  for (std::size_t i = 0; i < param_leaves.size(); ++i) {
    param_leaves[i].detach().add_(update_leaves[i].to(param_leaves[i].scalar_type()));
  }
}

}  // namespace ripieno
