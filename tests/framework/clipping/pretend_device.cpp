#include "pretend_device.hpp"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <tuple>

namespace ripieno::testing {
namespace {

constexpr c10::DeviceType k_type = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKeySet k_keys(c10::DispatchKey::PrivateUse1);

/// Host memory under another device's name.
class PretendAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr host = c10::GetCPUAllocator()->allocate(bytes);
    void* const data = host.get();
    void* const context = host.release_context();
    return {data, context, c10::GetCPUAllocator()->raw_deleter(), c10::Device(k_type, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return c10::GetCPUAllocator()->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

PretendAllocator allocator;

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator, k_keys, type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &allocator, k_keys, type.value_or(at::kFloat));
}

/// The same memory as a tensor of the processor.
at::Tensor on_processor(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.scalar_type()));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool /*non_blocking*/) {
  on_processor(to).copy_(on_processor(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar(const at::Tensor& tensor) { return at::_local_scalar_dense(on_processor(tensor)); }

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, std::int64_t groups) {
  const std::optional<at::Tensor> own_bias =
      bias && bias->defined() ? std::optional(on_processor(*bias)) : std::nullopt;
  return at::convolution(on_processor(input), on_processor(weight), own_bias, stride, padding, dilation, transposed,
                         output_padding, groups)
      .to(input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& gradient, const at::Tensor& input,
                                                                    const at::Tensor& weight, at::IntArrayRef stride,
                                                                    at::IntArrayRef padding, at::IntArrayRef dilation,
                                                                    bool transposed, at::IntArrayRef output_padding,
                                                                    std::int64_t groups, std::array<bool, 3> mask) {
  const std::vector<std::int64_t> bias_shape{gradient.size(1)};
  auto [of_input, of_weight, of_bias] =
      at::convolution_backward(on_processor(gradient), on_processor(input), on_processor(weight), bias_shape, stride,
                               padding, dilation, transposed, output_padding, groups, mask);
  const auto back = [&](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(input.device()) : tensor; };
  return {back(of_input), back(of_weight), back(of_bias)};
}

/// As a device does: scalars of the processor may take part, its tensors may not.
void check_devices(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto check = [&](const at::Tensor& tensor) {
    TORCH_CHECK(!tensor.defined() || !tensor.is_cpu() || tensor.dim() == 0, op.schema().name(),
                " mixes a tensor of the processor with those of a device");
  };
  for (const c10::IValue& argument : torch::jit::last(stack, op.schema().arguments().size())) {
    if (argument.isTensor()) check(argument.toTensor());
    if (argument.isTensorList()) {
      for (const at::Tensor& tensor : argument.toTensorVector()) check(tensor);
    }
  }
}

void by_processor(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  check_devices(op, *stack);
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&by_processor>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", local_scalar);
  library.impl("convolution_overrideable", convolution);
  library.impl("convolution_backward_overrideable", convolution_backward);
  library.impl("view", at::native::view);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("resize_", at::native::resize_);
  library.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
}

/// Autograd asks whether there is a device.
struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
};

/// One device with one stream, on which everything is done at once.
struct Guard final : c10::impl::NoOpDeviceGuardImpl<k_type> {
  static c10::Stream only_stream() { return c10::Stream(c10::Stream::DEFAULT, c10::Device(k_type, 0)); }

  c10::Device exchangeDevice(c10::Device /*device*/) const override { return {k_type, 0}; }
  c10::Device getDevice() const override { return {k_type, 0}; }
  c10::Stream getStream(c10::Device /*device*/) const noexcept override { return only_stream(); }
  c10::Stream getDefaultStream(c10::Device /*device*/) const override { return only_stream(); }
  c10::Stream getNewStream(c10::Device /*device*/, int /*priority*/) const override { return only_stream(); }
  c10::Stream exchangeStream(c10::Stream /*stream*/) const noexcept override { return only_stream(); }
  void record(void** /*event*/, const c10::Stream& /*stream*/, c10::DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {}
  void block(void* /*event*/, const c10::Stream& /*stream*/) const override {}
  bool queryEvent(void* /*event*/) const override { return true; }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

c10::Device pretend_device() {
  static const bool registered = [] {
    c10::SetAllocator(k_type, &allocator);
    c10::register_privateuse1_backend("pretend");
    at::RegisterPrivateUse1HooksInterface(new Hooks);  // for as long as Torch lives
    return true;
  }();
  static_cast<void>(registered);
  return {k_type, 0};
}

}  // namespace ripieno::testing
