#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/io/tensor_file.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno {

/// The leaves of trees, as arrays for a tensor file: each under its dotted path after a prefix, in its own dtype.
class TensorArrays {
 public:
  /// UsageError for a dtype that tensor files do not hold.
  void add(const std::string& prefix, const PyTree& tree);
  /// Valid while this object lives.
  [[nodiscard]] std::span<const io::NamedTensor> arrays() const noexcept { return arrays_; }

 private:
  std::vector<at::Tensor> leaves_;  // on the CPU and contiguous, whatever the trees are
  std::vector<io::NamedTensor> arrays_;
};

/// A tree of the structure, shapes and dtypes of `like`, on the CPU, bit for bit as `TensorArrays::add` put it into
/// `file`; its arrays are taken out of `file`. DataError, which names `path`, when one is missing or of another shape
/// or dtype.
[[nodiscard]] PyTree take_tree(const std::string& prefix, const PyTree& like, io::TensorFile& file,
                               const std::filesystem::path& path);

}  // namespace ripieno
