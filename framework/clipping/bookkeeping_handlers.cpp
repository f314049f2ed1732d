#include <ATen/ATen.h>

#include <algorithm>
#include <ripieno/framework/clipping/bookkeeping_handlers.hpp>

namespace ripieno::bookkeeping {

const NodeHandler* find_handler(std::string_view node) {
  for (const auto family : {linear_handlers(), batched_handlers(), convolution_handlers(), embedding_handlers(),
                            embedding_bag_handlers(), normalisation_handlers(), broadcast_handlers()}) {
    const auto found = std::ranges::find(family, node, &NodeHandler::node);
    if (found != family.end()) return &*found;
  }
  return nullptr;
}

PerExampleGradientPtr store(at::Tensor rows, const Shape& shape) {
  return std::make_unique<StoredGradient>(std::move(rows), shape);
}

at::Tensor scaled(const at::Tensor& gradient, const at::Scalar& factor) {
  return factor.toDouble() == 1 ? gradient : gradient * factor;
}

at::Tensor widened(const at::Tensor& tensor) {
  return tensor.defined() && at::isReducedFloatingType(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;
}

at::Tensor call_node(const NodePtr& node, int edge, const at::Tensor& output_gradient) {
  const at::NoGradGuard no_grad;
  torch::autograd::variable_list gradients(node->num_inputs());
  gradients.front() = output_gradient.to(c10::typeMetaToScalarType(node->input_metadata(0).dtype()));
  return widened((*node)(std::move(gradients))[edge]);
}

}  // namespace ripieno::bookkeeping
