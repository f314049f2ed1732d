#include <ripieno/framework/models/feature_kernel.hpp>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/models/oriented_gradients_kernel.hpp>
#include <ripieno/framework/models/scattering_kernel.hpp>

namespace ripieno {
namespace {

template <class Kernel, class Shape>
std::unique_ptr<FeatureKernel> make(std::string_view name, std::size_t least_side, Shape shape) {
  if (shape.height < least_side || shape.width < least_side) {
    throw UsageError(std::string(name) + " cannot be made of images of " + std::to_string(shape.height) + "x" +
                         std::to_string(shape.width) + " pixels",
                     "each side must have " + std::to_string(least_side) + " or more");
  }
  return std::make_unique<Kernel>(shape);
}

}  // namespace

std::unique_ptr<FeatureKernel> make_feature_kernel(std::string_view name, std::size_t height, std::size_t width) {
  if (name == "oriented-gradients") {
    return make<OrientedGradientsKernel>(name, OrientedGradientsShape::k_window,
                                         OrientedGradientsShape{.height = height, .width = width});
  }
  if (name == "scattering") {
    return make<ScatteringKernel>(name, ScatteringShape::k_least_side,
                                  ScatteringShape{.height = height, .width = width});
  }
  throw UsageError("there is no feature map " + std::string(name), {}, "take oriented-gradients or scattering");
}

std::vector<std::string> feature_kernel_names() { return {"oriented-gradients", "scattering"}; }

}  // namespace ripieno
