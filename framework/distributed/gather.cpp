#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/comm/rank_texts.hpp>
#include <ripieno/framework/distributed/agreement.hpp>
#include <ripieno/framework/distributed/context.hpp>
#include <ripieno/framework/distributed/gather.hpp>

namespace ripieno::distributed {
namespace {

/// What one rank gives: its tree as JSON, with leaves {"dtype", "number", "sizes"} and the extents along the gathered
/// dimension taken out into "extents", so that what is left is equal on all ranks that give anything.
struct Offer {
  Json structure;  // null: this rank gives nothing
  std::vector<std::int64_t> extents;
};

Json describe_leaf(const at::Tensor& leaf, std::int64_t dim, std::vector<std::int64_t>& extents) {
  if (leaf.dim() == 0) {
    throw UsageError("tensors without dimensions cannot be joined", {}, "give them one with unsqueeze(0)");
  }
  if (dim < -leaf.dim() || dim >= leaf.dim()) {
    throw UsageError("dimension " + std::to_string(dim) + " of a tensor that has " + std::to_string(leaf.dim()));
  }
  const auto axis = static_cast<std::size_t>(dim < 0 ? dim + leaf.dim() : dim);
  std::vector<std::int64_t> sizes = leaf.sizes().vec();
  extents.push_back(std::exchange(sizes[axis], -1));
  return {
      {"dtype", at::toString(leaf.scalar_type())}, {"number", static_cast<int>(leaf.scalar_type())}, {"sizes", sizes}};
}

Json describe(const PyTree& tree, std::int64_t dim, std::vector<std::int64_t>& extents) {
  if (tree.is_leaf()) return {{"leaf", describe_leaf(tree.tensor(), dim, extents)}};
  if (tree.is_list()) {
    Json entries = Json::array();
    for (const PyTree& entry : tree.list()) entries.push_back(describe(entry, dim, extents));
    return {{"list", entries}};
  }
  Json entries = Json::object();
  for (const auto& [key, entry] : tree.dict()) entries[key] = describe(entry, dim, extents);
  return {{"dict", entries}};
}

/// Collective. UsageError on every rank when one cannot give its tree or the structures differ.
std::vector<Offer> exchange_offers(const std::optional<PyTree>& tree, std::int64_t dim,
                                   const Communicator& communicator) {
  Json mine;
  std::exception_ptr failure;
  try {
    std::vector<std::int64_t> extents;
    mine["structure"] = tree ? describe(*tree, dim, extents) : Json();
    mine["extents"] = extents;
  } catch (const UsageError& e) {
    mine = {{"refused", e.what()}};
    failure = std::current_exception();
  }
  const std::vector<std::string> texts = gather_texts(communicator, mine.dump());
  std::vector<Offer> offers;
  std::vector<std::string> structures;
  for (const std::string& text : texts) {
    const Json offer = Json::parse(text);
    structures.push_back(offer.contains("refused") ? offer["refused"].get<std::string>() : offer["structure"].dump());
    if (!offer.contains("refused")) {
      offers.push_back({offer["structure"], offer["extents"].get<std::vector<std::int64_t>>()});
    }
  }
  const bool all_refuse_alike =
      failure && std::ranges::all_of(structures, [&](const std::string& one) { return one == structures.front(); });
  if (all_refuse_alike) std::rethrow_exception(failure);
  const std::string* reference = nullptr;
  bool differ = offers.size() < structures.size();  // some rank refuses
  for (const std::string& structure : structures) {
    if (structure == "null") continue;
    if (reference == nullptr) reference = &structure;
    differ = differ || structure != *reference;
  }
  if (differ) {
    throw UsageError("the ranks' tensors cannot be joined", who_says_what(structures),
                     "give tensors of one dtype that differ in the joined dimension only");
  }
  return offers;
}

std::vector<std::byte> packed(const PyTree& tree) {
  std::vector<std::byte> bytes;
  for (const at::Tensor& leaf : tree.leaves()) {
    const at::Tensor host = leaf.detach().cpu().contiguous();
    const auto* const begin = static_cast<const std::byte*>(host.const_data_ptr());
    bytes.insert(bytes.end(), begin, begin + host.nbytes());
  }
  return bytes;
}

/// Where the next leaf of each rank begins.
struct Reader {
  std::vector<Offer> offers;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::size_t> position;
  std::size_t leaf = 0;

  at::Tensor next_leaf(const Json& description) {
    const auto dtype = static_cast<at::ScalarType>(description["number"].get<int>());
    auto sizes = description["sizes"].get<std::vector<std::int64_t>>();
    const auto axis = std::ranges::find(sizes, -1) - sizes.begin();
    std::vector<at::Tensor> parts;
    for (std::size_t rank = 0; rank < offers.size(); ++rank) {
      if (offers[rank].structure.is_null()) continue;
      sizes[static_cast<std::size_t>(axis)] = offers[rank].extents[leaf];
      const at::Tensor part = at::empty(sizes, at::TensorOptions().dtype(dtype));
      if (part.nbytes() > 0) std::memcpy(part.mutable_data_ptr(), bytes[rank].data() + position[rank], part.nbytes());
      position[rank] += part.nbytes();
      parts.push_back(part);
    }
    ++leaf;
    return at::cat(parts, axis);
  }

  PyTree next_tree(const Json& structure) {
    if (structure.contains("leaf")) return next_leaf(structure["leaf"]);
    if (structure.contains("list")) {
      PyTree::List entries;
      for (const Json& entry : structure["list"]) entries.push_back(next_tree(entry));
      return PyTree(std::move(entries));
    }
    PyTree::Dict entries;
    for (const auto& [key, entry] : structure["dict"].items()) entries.emplace(key, next_tree(entry));
    return PyTree(std::move(entries));
  }
};

std::optional<PyTree> gathered(const std::optional<PyTree>& tree, std::int64_t dim, const Communicator& communicator) {
  const at::NoGradGuard no_grad;
  Reader reader{.offers = exchange_offers(tree, dim, communicator),
                .bytes = communicator.allgather(tree ? packed(*tree) : std::vector<std::byte>{}),
                .position = std::vector<std::size_t>(static_cast<std::size_t>(communicator.size()))};
  const auto given = std::ranges::find_if(reader.offers, [](const Offer& offer) { return !offer.structure.is_null(); });
  if (given == reader.offers.end()) return std::nullopt;
  return reader.next_tree(given->structure);
}

}  // namespace

at::Tensor gather_tensors(const at::Tensor& tensor, std::int64_t dim, const Communicator& communicator) {
  const OperationScope scope("gather_tensors");
  return gathered(PyTree(tensor), dim, communicator)->tensor().to(tensor.device());
}
at::Tensor gather_tensors(const at::Tensor& tensor, std::int64_t dim) {
  return gather_tensors(tensor, dim, current_communicator());
}

std::optional<PyTree> gather_pytree(const std::optional<PyTree>& tree, const Communicator& communicator) {
  const OperationScope scope("gather_pytree");
  return gathered(tree, 0, communicator);
}
std::optional<PyTree> gather_pytree(const std::optional<PyTree>& tree) {
  return gather_pytree(tree, current_communicator());
}

}  // namespace ripieno::distributed
