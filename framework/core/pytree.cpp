#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/core/pytree.hpp>

namespace ripieno {
namespace {

void check_key(const std::string& key) {
  if (key.empty() || key.find('.') != std::string::npos)
    throw UsageError("'" + key + "' cannot be a key of a PyTree", "keys are not empty and hold no '.'",
                     "use PyTree::from_paths for dotted names");
}

/// Calls f(path, leaf) for each leaf of the tree, in leaf order.
template <class F>
void visit(const PyTree& tree, const std::string& path, F& f) {
  const auto below = [&path](const std::string& key) { return path.empty() ? key : path + "." + key; };
  if (tree.is_dict()) {
    for (const auto& [key, child] : tree.dict()) visit(child, below(key), f);
  } else if (tree.is_list()) {
    for (std::size_t i = 0; i < tree.list().size(); ++i) visit(tree.list()[i], below(std::to_string(i)), f);
  } else {
    f(path, tree.tensor());
  }
}

PyTree rebuild(const PyTree& like, std::span<const at::Tensor>& remaining) {
  if (like.is_dict()) {
    PyTree::Dict entries;
    for (const auto& [key, child] : like.dict()) entries.emplace(key, rebuild(child, remaining));
    return PyTree(std::move(entries));
  }
  if (like.is_list()) {
    PyTree::List entries;
    for (const PyTree& child : like.list()) entries.push_back(rebuild(child, remaining));
    return PyTree(std::move(entries));
  }
  PyTree leaf(remaining.front());
  remaining = remaining.subspan(1);
  return leaf;
}

/// A dictionary under construction: `from_paths` fills it before the immutable tree is made.
struct Branch {
  std::map<std::string, Branch> children;
  at::Tensor leaf;

  [[nodiscard]] PyTree finish() const {
    if (leaf.defined()) return PyTree(leaf);
    PyTree::Dict entries;
    for (const auto& [key, child] : children) entries.emplace(key, child.finish());
    return PyTree(std::move(entries));
  }
};

Branch& descend(Branch& root, const std::string& path) {
  Branch* node = &root;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (node->leaf.defined()) throw UsageError("the path '" + path + "' runs through another leaf");
    node = &node->children[path.substr(begin, end - begin)];
    begin = end + 1;
  }
  return *node;
}

std::string kind(const PyTree& tree) { return tree.is_leaf() ? "leaf" : tree.is_dict() ? "dictionary" : "list"; }

}  // namespace

PyTree::PyTree(at::Tensor leaf) : node_(std::move(leaf)) {
  if (!tensor().defined()) throw UsageError("a leaf of a PyTree is an undefined tensor");
}

PyTree::PyTree(Dict entries) : node_(std::move(entries)) {
  for (const auto& [key, child] : dict()) check_key(key);
}

PyTree::PyTree(List entries) : node_(std::move(entries)) {}

PyTree::PyTree(std::initializer_list<Dict::value_type> entries) {
  Dict collected;
  for (const auto& entry : entries) {
    check_key(entry.first);
    if (!collected.insert(entry).second) throw UsageError("the key '" + entry.first + "' is given twice");
  }
  node_ = std::move(collected);
}

PyTree PyTree::from_paths(std::span<const std::pair<std::string, at::Tensor>> leaves) {
  Branch root;
  for (const auto& [path, tensor] : leaves) {
    Branch& place = descend(root, path);
    if (place.leaf.defined() || !place.children.empty())
      throw UsageError("the path '" + path + "' is given twice", "each leaf has its own path");
    place.leaf = PyTree(tensor).tensor();
  }
  return root.finish();
}

const at::Tensor& PyTree::tensor() const {
  if (!is_leaf())
    throw UsageError("a " + kind(*this) + " of a PyTree was used as a tensor", {}, "name one of its leaves");
  return std::get<at::Tensor>(node_);
}

const PyTree::Dict& PyTree::dict() const {
  if (!is_dict()) throw UsageError("a " + kind(*this) + " of a PyTree was used as a dictionary");
  return std::get<Dict>(node_);
}

const PyTree::List& PyTree::list() const {
  if (!is_list()) throw UsageError("a " + kind(*this) + " of a PyTree was used as a list");
  return std::get<List>(node_);
}

const PyTree& PyTree::operator[](std::string_view key) const {
  const auto found = dict().find(std::string(key));
  if (found != dict().end()) return found->second;
  std::vector<std::string> keys;
  for (const auto& [name, child] : dict()) keys.push_back(name);
  const std::string similar = nearest(key, keys);
  throw UsageError("the PyTree has no entry '" + std::string(key) + "'", "its entries are: " + join(keys),
                   similar.empty() ? "" : "did you mean '" + similar + "'?");
}

const PyTree& PyTree::operator[](std::size_t index) const {
  if (index < list().size()) return list()[index];
  throw UsageError("the PyTree has no entry " + std::to_string(index),
                   "it is a list of " + std::to_string(list().size()) + " entries");
}

std::vector<at::Tensor> PyTree::leaves() const {
  std::vector<at::Tensor> collected;
  auto collect = [&collected](const std::string&, const at::Tensor& leaf) { collected.push_back(leaf); };
  visit(*this, "", collect);
  return collected;
}

std::vector<std::string> PyTree::paths() const {
  std::vector<std::string> collected;
  auto collect = [&collected](const std::string& path, const at::Tensor&) { collected.push_back(path); };
  visit(*this, "", collect);
  return collected;
}

std::size_t PyTree::num_leaves() const { return leaves().size(); }

std::int64_t PyTree::numel() const {
  std::int64_t total = 0;
  for (const at::Tensor& leaf : leaves()) total += leaf.numel();
  return total;
}

bool PyTree::same_structure(const PyTree& other) const {
  if (node_.index() != other.node_.index()) return false;
  if (is_dict())
    return std::equal(
        dict().begin(), dict().end(), other.dict().begin(), other.dict().end(),
        [](const auto& a, const auto& b) { return a.first == b.first && a.second.same_structure(b.second); });
  if (is_list())
    return std::equal(list().begin(), list().end(), other.list().begin(), other.list().end(),
                      [](const PyTree& a, const PyTree& b) { return a.same_structure(b); });
  return true;
}

PyTree PyTree::with_leaves(std::span<const at::Tensor> leaves) const {
  const std::size_t expected = num_leaves();
  if (leaves.size() != expected)
    throw UsageError("a PyTree of " + std::to_string(expected) + " leaves was given " + std::to_string(leaves.size()));
  return rebuild(*this, leaves);
}

void check_same_structure(const PyTree& a, const PyTree& b, std::string_view what) {
  if (a.same_structure(b)) return;
  throw UsageError(std::string(what) + " differ in structure",
                   "[" + join(a.paths()) + "] against [" + join(b.paths()) + "]");
}

}  // namespace ripieno
