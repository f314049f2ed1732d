#include <ATen/ATen.h>

#include <array>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/training/tensor_arrays.hpp>
#include <utility>

namespace ripieno {
namespace {

constexpr std::array k_types{std::pair{at::kFloat, io::DType::f32}, std::pair{at::kDouble, io::DType::f64},
                             std::pair{at::kHalf, io::DType::f16},  std::pair{at::kBFloat16, io::DType::bf16},
                             std::pair{at::kLong, io::DType::i64},  std::pair{at::kInt, io::DType::i32},
                             std::pair{at::kByte, io::DType::u8},   std::pair{at::kChar, io::DType::i8}};

io::DType stored_dtype(at::ScalarType type) {
  for (const auto& [scalar, stored] : k_types) {
    if (scalar == type) return stored;
  }
  throw UsageError(std::string("a tensor of ") + at::toString(type) + " cannot be stored",
                   "tensor files hold floating point numbers and integers");
}

}  // namespace

void TensorArrays::add(const std::string& prefix, const PyTree& tree) {
  const std::vector<std::string> paths = tree.paths();
  const std::vector<at::Tensor> leaves = tree.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const at::Tensor& leaf = leaves_.emplace_back(leaves[i].detach().to(at::kCPU).contiguous());
    arrays_.push_back({.name = prefix + paths[i],
                       .shape = leaf.sizes().vec(),
                       .dtype = stored_dtype(leaf.scalar_type()),
                       .bytes = {static_cast<const std::byte*>(leaf.const_data_ptr()), leaf.nbytes()}});
  }
}

PyTree take_tree(const std::string& prefix, const PyTree& like, io::TensorFile& file,
                 const std::filesystem::path& path) {
  const std::vector<std::string> paths = like.paths();
  const std::vector<at::Tensor> leaves = like.leaves();
  std::vector<at::Tensor> taken;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto stored = file.tensors.extract(prefix + paths[i]);
    if (stored.empty() || leaves[i].sizes() != at::IntArrayRef(stored.mapped().shape) ||
        stored.mapped().dtype != stored_dtype(leaves[i].scalar_type())) {
      throw DataError(path.string() + " does not fit the model",
                      "tensor " + prefix + paths[i] + " is missing or has another shape or type",
                      "resume with the model that the run began with");
    }
    const at::Tensor copy = at::empty(leaves[i].sizes(), leaves[i].options().device(at::kCPU));
    if (copy.nbytes() > 0) std::memcpy(copy.mutable_data_ptr(), stored.mapped().bytes.data(), copy.nbytes());
    taken.push_back(copy);
  }
  return like.with_leaves(taken);
}

}  // namespace ripieno
