#include <ripieno/framework/sampling/dataset.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <string>

#include <ripieno/accounting/base/error.hpp>

namespace ripieno {

TensorDataset::TensorDataset(at::Tensor x, at::Tensor y) : x_(x.detach().contiguous()), y_(y.detach().contiguous()) {
  if (x_.dim() < 1 || y_.dim() < 1 || x_.size(0) != y_.size(0)) {
    throw UsageError("x and y of a dataset differ in their number of examples",
                     "the first dimension of both counts examples");
  }
}

std::int64_t TensorDataset::num_examples() const { return x_.size(0); }

std::pair<at::Tensor, at::Tensor> TensorDataset::gather(std::span<const std::int64_t> ids) const {
  const auto outside = [this](std::int64_t id) { return id < 0 || id >= num_examples(); };
  if (const auto wrong = std::find_if(ids.begin(), ids.end(), outside); wrong != ids.end()) {
    throw UsageError("no example " + std::to_string(*wrong),
                     "the dataset has " + std::to_string(num_examples()) + " examples");
  }
  // from_blob wants a pointer to non-const; the index is only read.
  const at::Tensor index = at::from_blob(const_cast<std::int64_t*>(ids.data()), {static_cast<std::int64_t>(ids.size())},
                                         at::TensorOptions(at::kLong));
  return {x_.index_select(0, index.to(x_.device())), y_.index_select(0, index.to(y_.device()))};
}

}  // namespace ripieno
