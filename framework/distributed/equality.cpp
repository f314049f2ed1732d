#include <ATen/ATen.h>
#include <xxhash.h>

#include <algorithm>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/comm/rank_texts.hpp>
#include <ripieno/framework/distributed/agreement.hpp>
#include <ripieno/framework/distributed/context.hpp>
#include <ripieno/framework/distributed/equality.hpp>
#include <ripieno/framework/distributed/tensors.hpp>

namespace ripieno::distributed {
namespace {

std::string hex(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return to_hex({canonical.digest, sizeof canonical.digest});
}

/// "Float [2, 3] 0123…": shape, dtype and 128 bits of the bytes.
std::string fingerprint(const at::Tensor& leaf) {
  const at::Tensor host = leaf.detach().cpu().contiguous();
  return detail::describe_tensors({leaf}) + " " + hex(XXH3_128bits(host.const_data_ptr(), host.nbytes()));
}

Json fingerprints(const PyTree& tree) {
  Json all = Json::array();
  const std::vector<std::string> paths = tree.paths();
  const std::vector<at::Tensor> leaves = tree.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) all.push_back({paths[i], fingerprint(leaves[i])});
  return all;
}

/// "first at leaf 1: bias Float [2] 01… on rank 0; bias Float [2] 02… on rank 1"
std::string first_difference(const std::vector<std::string>& texts) {
  std::vector<Json> of_rank;
  std::size_t most = 0;
  for (const std::string& text : texts) most = std::max(most, of_rank.emplace_back(Json::parse(text)).size());
  for (std::size_t i = 0; i < most; ++i) {
    std::vector<std::string> entries;
    for (const Json& leaves : of_rank) {
      entries.push_back(i < leaves.size() ? join(leaves[i].get<std::vector<std::string>>(), " ") : "no leaf");
    }
    if (std::ranges::any_of(entries, [&](const std::string& entry) { return entry != entries.front(); })) {
      return "first at leaf " + std::to_string(i) + ": " + who_says_what(entries);
    }
  }
  return "in the kinds of its nodes";
}

}  // namespace

void assert_pytree_equal(const PyTree& tree, std::string_view name, const Communicator& communicator) {
  if (communicator.size() == 1) return;
  const OperationScope scope("assert_pytree_equal");
  const std::string mine = fingerprints(tree).dump();
  if (same_everywhere(communicator, mine)) return;
  throw CommError(std::string(name) + " differs between ranks", first_difference(gather_texts(communicator, mine)),
                  "run all ranks on one type of machine with the same library versions and inputs");
}
void assert_pytree_equal(const PyTree& tree, std::string_view name) {
  assert_pytree_equal(tree, name, current_communicator());
}

}  // namespace ripieno::distributed
