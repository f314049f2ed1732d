#include <ATen/ATen.h>
#include <fnmatch.h>

#include <algorithm>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/models/freeze.hpp>

namespace ripieno {
namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

bool matches(const std::string& pattern, const std::string& path) {
  return ::fnmatch(pattern.c_str(), path.c_str(), 0) == 0;
}

void check_pattern(const std::string& pattern, const std::vector<std::string>& paths) {
  if (std::ranges::any_of(paths, [&](const std::string& path) { return matches(pattern, path); })) return;
  const std::string guess = nearest(pattern, paths);
  throw UsageError("--freeze " + pattern + " matches no parameter", "the model's are " + join(paths),
                   guess.empty() ? "" : "did you mean '" + guess + "'?");
}

NamedTensors named_leaves(const PyTree& tree) {
  const std::vector<std::string> paths = tree.paths();
  const std::vector<at::Tensor> leaves = tree.leaves();
  NamedTensors named;
  for (std::size_t i = 0; i < paths.size(); ++i) named.emplace_back(paths[i], leaves[i]);
  return named;
}

/// Puts trained and frozen leaves back where they stood in the whole tree.
class Reunion {
 public:
  Reunion(PyTree whole, const PyTree& trained) : whole_(std::move(whole)) {
    const std::vector<std::string> paths = trained.paths();
    for (const std::string& path : whole_.paths()) {
      const auto found = std::ranges::find(paths, path);
      trained_at_.push_back(found == paths.end() ? k_frozen : found - paths.begin());
    }
  }

  [[nodiscard]] PyTree operator()(const PyTree& trained) const {
    const std::vector<at::Tensor> given = trained.leaves();
    std::vector<at::Tensor> leaves = whole_.leaves();
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (trained_at_[i] != k_frozen) leaves[i] = given.at(static_cast<std::size_t>(trained_at_[i]));
    return whole_.with_leaves(leaves);
  }

 private:
  static constexpr std::ptrdiff_t k_frozen = -1;

  PyTree whole_;
  std::vector<std::ptrdiff_t> trained_at_;  ///< index among the trained leaves, of each leaf of the whole
};

}  // namespace

Model freeze(Model model, std::span<const std::string> patterns) {
  if (patterns.empty()) return model;
  const std::vector<std::string> paths = model.params.paths();
  for (const std::string& pattern : patterns) check_pattern(pattern, paths);
  NamedTensors trained, frozen = named_leaves(model.frozen);
  for (const auto& [path, leaf] : named_leaves(model.params)) {
    const auto fits = [&path = path](const std::string& pattern) { return matches(pattern, path); };
    (std::ranges::any_of(patterns, fits) ? frozen : trained).emplace_back(path, leaf);
  }
  if (trained.empty()) throw UsageError("--freeze leaves no parameter to train", "the patterns match all of them");

  PyTree remaining = PyTree::from_paths(trained);
  const Reunion whole(model.params, remaining);
  model.forward = [forward = model.forward, whole](const PyTree& params, const at::Tensor& x) {
    return forward(whole(params), x);
  };
  if (model.save)
    model.save = [save = model.save, whole](const std::string& path, const PyTree& params, const Model::Notes& notes) {
      save(path, whole(params), notes);
    };
  model.params = std::move(remaining);
  model.frozen = PyTree::from_paths(frozen);
  return model;
}

PyTree all_params(const Model& model, const PyTree& params) {
  if (model.frozen.num_leaves() == 0) return params;
  NamedTensors all = named_leaves(params);
  for (auto& named : named_leaves(model.frozen)) all.push_back(std::move(named));
  return PyTree::from_paths(all);
}

}  // namespace ripieno
