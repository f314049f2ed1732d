#include <ATen/ATen.h>

#include <ripieno/framework/training/model_file.hpp>
#include <ripieno/io/tensor_file.hpp>

namespace ripieno {

void write_model(const std::filesystem::path& path, const std::string& model_name, const PyTree& params,
                 const std::string& ledger_head) {
  const std::vector<std::string> paths = params.paths();
  std::vector<at::Tensor> leaves = params.leaves();
  std::vector<io::NamedTensor> tensors;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    leaves[i] = leaves[i].to(at::kCPU, at::kFloat).contiguous();
    tensors.push_back({.name = paths[i],
                       .shape = leaves[i].sizes().vec(),
                       .values = {leaves[i].const_data_ptr<float>(), static_cast<std::size_t>(leaves[i].numel())}});
  }
  io::write_tensor_file(path, {{"format", "ripieno-model 1"}, {"model", model_name}, {"ledger_head", ledger_head}},
                        tensors);
}

}  // namespace ripieno
