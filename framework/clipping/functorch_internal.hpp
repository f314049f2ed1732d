#pragma once
// Internal to clipping: functorch's layers as scopes. Included before anything that declares at::isBatchedTensor, which
// would make functorch's own ambiguous.

#include <ATen/functorch/BatchedFallback.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>

#include <cstdint>

namespace ripieno::functorch {

/// A functorch transform that every operation of this thread goes through while the object lives. Transforms nest like
/// scopes, which is what makes an exception undo them in order.
class Transform {
 public:
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;

  [[nodiscard]] std::int64_t level() const noexcept { return level_; }

 protected:
  explicit Transform(std::int64_t level) : level_(level) {}
  ~Transform() { at::functorch::popDynamicLayerAndDeleteMetadata(); }

 private:
  std::int64_t level_;
};

/// Operations see one row where a tensor of `each_of` stands for n.
class VmapTransform : public Transform {
 public:
  VmapTransform(std::int64_t n, at::functorch::RandomnessType randomness)
      : Transform(
            at::functorch::initAndPushDynamicLayer(at::functorch::TransformType::Vmap, c10::SymInt(n), randomness)) {}

  /// One tensor that stands for the n rows of [n, ...].
  [[nodiscard]] at::Tensor each_of(const at::Tensor& rows) const {
    return at::functorch::addBatchDim(rows, 0, level());
  }
};

/// While it lives, operators without a batching rule throw instead of running once for each row. One switch for the
/// whole process: not for two threads at once.
class NoFallback {
 public:
  NoFallback() : enabled_before_(at::functorch::isVmapFallbackEnabled()) {
    at::functorch::setVmapFallbackEnabled(false);
  }
  ~NoFallback() { at::functorch::setVmapFallbackEnabled(enabled_before_); }
  NoFallback(const NoFallback&) = delete;
  NoFallback& operator=(const NoFallback&) = delete;

 private:
  bool enabled_before_;
};

}  // namespace ripieno::functorch
