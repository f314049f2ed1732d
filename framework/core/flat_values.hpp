#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/accounting/base/error.hpp>
#include <span>
#include <string>
#include <utility>

namespace ripieno {

/// Calls `work` with the elements of a contiguous tensor on the CPU, to be read and written: a std::span of float,
/// double or std::int64_t, as its dtype is. UsageError for any other.
template <class Work>
void with_values(const at::Tensor& flat, Work&& work) {
  const auto size = static_cast<std::size_t>(flat.numel());
  switch (flat.scalar_type()) {
    case at::kFloat:
      return work(std::span(flat.mutable_data_ptr<float>(), size));
    case at::kDouble:
      return work(std::span(flat.mutable_data_ptr<double>(), size));
    case at::kLong:
      return work(std::span(flat.mutable_data_ptr<std::int64_t>(), size));
    default:
      throw UsageError(std::string("a tensor of ") + at::toString(flat.scalar_type()) + " does not travel",
                       "ranks exchange float32, float64 and int64");
  }
}

}  // namespace ripieno
