#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/distributed/agreement.hpp>
#include <ripieno/framework/distributed/reduce.hpp>
#include <ripieno/framework/distributed/tensors.hpp>

namespace ripieno::distributed {
namespace {

/// What all ranks must agree on before their trees may be added.
struct Summand {
  const PyTree& tree;
  double max_norm;
  const std::optional<PerGroup>& group_norms;
  Extent extent;
};

/// Paths, shapes, dtypes and, where groups were clipped apart, bounds of all leaves in 128 bits.
std::string structure_hash(const Summand& summand) {
  const std::vector<std::string> paths = summand.tree.paths();
  std::string text = join(paths) + '\n' + detail::describe_tensors(summand.tree.leaves());
  if (summand.group_norms) {
    for (const std::string& path : paths) text += "\nat most " + format_double(summand.group_norms->at(path));
  }
  const auto digest = sha256(text);
  return to_hex(std::span(digest).first(16));
}

std::string description(const Summand& summand) {
  const auto leaves = summand.tree.leaves();
  const std::string dtype = leaves.empty() ? "no" : at::toString(leaves.front().scalar_type());
  return "max_norm " + format_double(summand.max_norm) + ", " + std::to_string(summand.tree.numel()) + " " + dtype +
         " values in " + std::to_string(leaves.size()) + " leaves of structure " + structure_hash(summand) + ", " +
         (summand.extent == Extent::local ? "a sum of this rank" : "a sum of all ranks");
}

void check_summable(const Summand& summand) {
  if (summand.extent == Extent::global) {
    throw UsageError("this gradient sum runs over all ranks already",
                     "summing it again would count every example W times");
  }
  for (const at::Tensor& leaf : summand.tree.leaves()) {
    if (leaf.scalar_type() != at::kFloat && leaf.scalar_type() != at::kDouble) {
      throw UsageError(
          std::string("gradients are summed in float32 or float64, not ") + at::toString(leaf.scalar_type()),
          "rounding to less would break the bound of one example", "cast after the noise");
    }
  }
}

/// Collective. `flat`: contiguous, [n], float32 or float64, any device.
void allreduce_sum_(const at::Tensor& flat, const Communicator& communicator) {
  const at::Tensor host = flat.cpu();  // itself when it is there already
  const auto size = static_cast<std::size_t>(host.numel());
  if (host.scalar_type() == at::kDouble) {
    communicator.allreduce_sum(std::span(host.mutable_data_ptr<double>(), size));
  } else {
    communicator.allreduce_sum(std::span(host.mutable_data_ptr<float>(), size));
  }
  if (!flat.is_cpu()) flat.copy_(host);
}

/// Collective. All checks, equally on every rank. The tensors are sent only when this has passed: sums of different
/// lengths would hang or mix parameters.
void check(const Summand& summand, const Communicator& communicator) {
  agree(communicator, "the ranks' gradient sums do not belong together",
        "use the same model and clipping norm on every rank", [&] {
          check_summable(summand);
          return description(summand);
        });
}

/// Collective. The sum of trees that have passed `check`; `in_place` lets it overwrite the summand.
PyTree sum_over_ranks(const PyTree& tree, const Communicator& communicator, bool in_place) {
  if (communicator.size() == 1) return tree;
  const at::NoGradGuard no_grad;
  const std::optional<at::Tensor> view = flat_view(tree);
  const at::Tensor flat = !view ? flatten(tree) : in_place ? *view : view->clone();
  allreduce_sum_(flat, communicator);
  const PyTree sum = unflatten(tree, flat);
  if (!in_place) return sum;
  if (!view) {
    const std::vector<at::Tensor> targets = tree.leaves();
    const std::vector<at::Tensor> sums = sum.leaves();
    for (std::size_t i = 0; i < targets.size(); ++i) targets[i].copy_(sums[i]);
  }
  return tree;
}

Clipped<PyTree> summed(const Clipped<PyTree>& gradients, const Communicator& communicator, bool in_place) {
  const OperationScope scope("sum_gradients");
  check({gradients.tree(), gradients.max_norm(), gradients.group_norms(), gradients.extent()}, communicator);
  return gradients.with_tree(sum_over_ranks(gradients.tree(), communicator, in_place), Extent::global);
}

struct RankNoise {
  std::uint64_t key_fingerprint;
  double stddev;  // nan: unknown
};

/// Collective.
std::vector<RankNoise> gather_noise(const Noised<PyTree>& gradients, const Communicator& communicator) {
  const RankNoise mine{gradients.key_fingerprint(), gradients.noise_stddev().value_or(std::nan(""))};
  std::vector<RankNoise> all;
  for (const auto& bytes : communicator.allgather(std::as_bytes(std::span(&mine, 1)))) {
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof(RankNoise));
  }
  return all;
}

void check_keys_differ(const std::vector<RankNoise>& noise) {
  std::map<std::uint64_t, std::size_t> owners;
  for (std::size_t rank = 0; rank < noise.size(); ++rank) {
    const auto [owner, is_new] = owners.try_emplace(noise[rank].key_fingerprint, rank);
    if (!is_new) {
      throw PrivacyError("two ranks have noised their gradients with the same key",
                         "ranks " + std::to_string(owner->second) + " and " + std::to_string(rank),
                         "give each rank fold_in(key, rank), or noise once after the sum");
    }
  }
}

}  // namespace

Clipped<PyTree> sum_gradients(const Clipped<PyTree>& gradients, const Communicator& communicator) {
  return summed(gradients, communicator, false);
}
Clipped<PyTree> sum_gradients(const Clipped<PyTree>& gradients) {
  return sum_gradients(gradients, current_communicator());
}

Clipped<PyTree> sum_gradients_(const Clipped<PyTree>& gradients, const Communicator& communicator) {
  return summed(gradients, communicator, true);
}
Clipped<PyTree> sum_gradients_(const Clipped<PyTree>& gradients) {
  return sum_gradients_(gradients, current_communicator());
}

Noised<PyTree> sum_gradients(const Noised<PyTree>& gradients, const Communicator& communicator) {
  const OperationScope scope("sum_gradients");
  check({gradients.tree(), gradients.max_norm(), gradients.group_norms(), gradients.extent()}, communicator);
  const std::vector<RankNoise> noise = gather_noise(gradients, communicator);
  check_keys_differ(noise);
  double variance = 0;
  std::uint64_t fingerprint = 0;
  for (const RankNoise& of_rank : noise) {
    variance += of_rank.stddev * of_rank.stddev;
    fingerprint ^= of_rank.key_fingerprint;
  }
  const std::optional<double> stddev = std::isnan(variance) ? std::nullopt : std::optional(std::sqrt(variance));
  return {sum_over_ranks(gradients.tree(), communicator, false), gradients.max_norm(), stddev, fingerprint,
          Extent::global};
}
Noised<PyTree> sum_gradients(const Noised<PyTree>& gradients) {
  return sum_gradients(gradients, current_communicator());
}

}  // namespace ripieno::distributed
