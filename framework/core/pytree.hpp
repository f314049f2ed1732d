#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ripieno {

using Tensor = at::Tensor;

/// Nested dictionaries and lists of tensors: model parameters, gradients, optimizer slots.
///
/// Leaves have one public order, in which they enter norms, draw noise and are laid out in a flat buffer: dictionary
/// keys sorted bytewise, list entries by index, depth first. A tree is a value; copies share the tensors, not the
/// structure. Keys are not empty and hold no '.', so that the dotted path of a leaf names it uniquely.
class PyTree {
 public:
  using Dict = std::map<std::string, PyTree>;
  using List = std::vector<PyTree>;

  /// An empty dictionary: no leaves.
  PyTree() = default;
  /// One leaf. UsageError when the tensor is undefined.
  PyTree(at::Tensor leaf);  // NOLINT(google-explicit-constructor): {"weight", w} reads as data
  /// UsageError when a key is empty or holds a '.'.
  explicit PyTree(Dict entries);
  explicit PyTree(List entries);
  /// PyTree{{"weight", w}, {"bias", b}}. UsageError when a key is given twice.
  PyTree(std::initializer_list<Dict::value_type> entries);

  /// The tree of leaves named by dotted paths: {"layers.0.weight", w} becomes dictionaries "layers" and "0". UsageError
  /// when a path is given twice or is both a leaf and a dictionary.
  [[nodiscard]] static PyTree from_paths(std::span<const std::pair<std::string, at::Tensor>> leaves);

  [[nodiscard]] bool is_leaf() const noexcept { return std::holds_alternative<at::Tensor>(node_); }
  [[nodiscard]] bool is_dict() const noexcept { return std::holds_alternative<Dict>(node_); }
  [[nodiscard]] bool is_list() const noexcept { return std::holds_alternative<List>(node_); }

  /// The tensor of a leaf; UsageError for a dictionary or list.
  [[nodiscard]] const at::Tensor& tensor() const;
  /// The same, so that closures read at::linear(x, p["weight"], p["bias"]).
  operator const at::Tensor&() const { return tensor(); }  // NOLINT(google-explicit-constructor)

  /// Entry of a dictionary. UsageError names the key, and the nearest one that exists.
  const PyTree& operator[](std::string_view key) const;
  /// Entry of a list; UsageError when there is none.
  const PyTree& operator[](std::size_t index) const;
  /// The entries of a dictionary or list; UsageError for another kind of node.
  [[nodiscard]] const Dict& dict() const;
  [[nodiscard]] const List& list() const;

  /// All leaves, and their dotted paths ("layers.0.weight"), both in leaf order. The path of a tree that is one leaf is
  /// "".
  [[nodiscard]] std::vector<at::Tensor> leaves() const;
  [[nodiscard]] std::vector<std::string> paths() const;
  [[nodiscard]] std::size_t num_leaves() const;
  /// Number of elements over all leaves.
  [[nodiscard]] std::int64_t numel() const;

  /// Same keys and list lengths; says nothing about the shapes and dtypes of the leaves.
  [[nodiscard]] bool same_structure(const PyTree& other) const;
  /// The same structure with other leaves, given in leaf order. UsageError when their number differs.
  [[nodiscard]] PyTree with_leaves(std::span<const at::Tensor> leaves) const;

  /// The same structure with f(leaf) in place of each leaf.
  template <class F>
  requires std::invocable<F&, const at::Tensor&>
  [[nodiscard]] PyTree map(F&& f) const;
  /// PyTree::map(f, a, b, …): f(leaf of a, leaf of b, …) for trees of one structure. UsageError otherwise.
  template <class F, std::same_as<PyTree>... Others>
  [[nodiscard]] static PyTree map(F&& f, const PyTree& first, const Others&... others);

 private:
  std::variant<Dict, List, at::Tensor> node_;
};

/// UsageError unless both trees have one structure; `what` says which trees these are, as in "updates and parameters".
void check_same_structure(const PyTree& a, const PyTree& b, std::string_view what);

template <class F>
requires std::invocable<F&, const at::Tensor&> PyTree PyTree::map(F&& f)
const {
  std::vector<at::Tensor> mapped;
  for (const at::Tensor& leaf : leaves()) mapped.push_back(f(leaf));
  return with_leaves(mapped);
}

template <class F, std::same_as<PyTree>... Others>
PyTree PyTree::map(F&& f, const PyTree& first, const Others&... others) {
  (check_same_structure(first, others, "the mapped trees"), ...);
  const auto apply = [&f](const std::vector<at::Tensor>& head, const auto&... rest) {
    std::vector<at::Tensor> mapped;
    for (std::size_t i = 0; i < head.size(); ++i) mapped.push_back(f(head[i], rest[i]...));
    return mapped;
  };
  return first.with_leaves(apply(first.leaves(), others.leaves()...));
}

}  // namespace ripieno
