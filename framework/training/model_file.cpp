#include <ATen/ATen.h>

#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/models/freeze.hpp>
#include <ripieno/framework/training/model_file.hpp>
#include <ripieno/framework/training/state_dict_file.hpp>
#include <ripieno/framework/training/tensor_arrays.hpp>
#include <ripieno/io/tensor_file.hpp>

namespace ripieno {
namespace {

constexpr const char* k_format = "ripieno-model 1";

/// Everything as float32, whatever the precision of training.
void write_h5(const std::filesystem::path& path, const PyTree& params, const io::TextAttributes& notes) {
  TensorArrays tensors;
  tensors.add("", params.map([](const at::Tensor& leaf) { return leaf.to(at::kFloat); }));
  io::write_tensor_file(path, notes, tensors.arrays());
}

void write_pt(const std::filesystem::path& path, const Model& model, const PyTree& params,
              const io::TextAttributes& notes) {
  if (!model.save) return write_state_dict(path.string(), all_params(model, params), notes);
  try {
    model.save(path.string(), params, {notes.begin(), notes.end()});
  } catch (const c10::Error& error) {
    throw DataError("cannot write " + path.string(), error.what_without_backtrace(), "free disk space");
  }
}

}  // namespace

void write_model(const std::filesystem::path& folder, const Model& model, const PyTree& params,
                 const std::string& ledger_head, const io::StagingFolder& staging) {
  io::TextAttributes notes{{"format", k_format}, {"model", model.name}, {"ledger_head", ledger_head}};
  if (!model.sha256.empty()) notes.emplace("model_sha256", model.sha256);
  staging.publish(folder / "model.h5", io::Overwrite::replace,
                  [&](const std::filesystem::path& made) { write_h5(made, all_params(model, params), notes); });
  staging.publish(folder / "model.pt", io::Overwrite::replace,
                  [&](const std::filesystem::path& made) { write_pt(made, model, params, notes); });
}

StoredModel read_model(const std::filesystem::path& path, const Model& like) {
  const io::TensorFile file = io::read_tensor_file(path);
  const auto format = file.attributes.find("format");
  if (format == file.attributes.end() || format->second != k_format) {
    throw DataError(path.string() + " is no model", {}, "give the model.h5 of a finished run");
  }
  const std::vector<std::string> paths = like.params.paths();
  const std::vector<at::Tensor> leaves = like.params.leaves();
  const auto refuse = [&](const std::string& why) {
    throw DataError(path.string() + " does not fit the model", why, "give --model and its arguments as in that run");
  };
  const std::size_t expected = all_params(like, like.params).paths().size();
  if (file.tensors.size() != expected) {
    refuse("it holds " + std::to_string(file.tensors.size()) + " tensors, the model has " + std::to_string(expected));
  }
  std::vector<at::Tensor> taken;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto stored = file.tensors.find(paths[i]);
    if (stored == file.tensors.end()) refuse("it lacks tensor " + paths[i]);
    if (leaves[i].sizes() != at::IntArrayRef(stored->second.shape)) refuse("tensor " + paths[i] + " has another shape");
    taken.push_back(at::tensor(stored->second.values<float>(), leaves[i].options()).view(leaves[i].sizes()));
  }
  return {like.params.with_leaves(taken), file.attributes.at("ledger_head")};
}

}  // namespace ripieno
