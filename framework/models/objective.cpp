#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/models/model.hpp>
#include <ripieno/framework/models/objective.hpp>
#include <ripieno/framework/models/sequence_objective.hpp>
#include <ripieno/framework/models/text.hpp>

namespace ripieno {
namespace {

std::string described(const at::Tensor& tensor) {
  return std::string(at::toString(tensor.scalar_type())) + " " + shape_text(tensor.sizes());
}

/// Outputs and targets as float [n, k].
struct Pairs {
  at::Tensor outputs, targets;
};

Pairs as_pairs(const std::string& loss, const at::Tensor& outputs, const at::Tensor& y) {
  if (!outputs.is_floating_point() || outputs.dim() == 0 || y.dim() == 0 || outputs.size(0) != y.size(0) ||
      outputs.numel() != y.numel())
    throw UsageError(loss + " got outputs " + described(outputs) + " and targets " + described(y),
                     "each example needs as many outputs as targets",
                     "let the model return one number for each target");
  return {outputs.reshape({outputs.size(0), -1}), y.reshape({y.size(0), -1}).to(outputs.scalar_type())};
}

at::Tensor squared_error(const at::Tensor& outputs, const at::Tensor&, const at::Tensor& y) {
  const auto [predicted, targets] = as_pairs("mse", outputs, y);
  return (predicted - targets).square().mean(1);
}

at::Tensor binary_cross_entropy(const at::Tensor& outputs, const at::Tensor&, const at::Tensor& y) {
  const auto [logits, targets] = as_pairs("binary-cross-entropy", outputs, y);
  return at::binary_cross_entropy_with_logits(logits, targets, {}, {}, at::Reduction::None).mean(1);
}

at::Tensor binary_accuracy(const at::Tensor& outputs, const at::Tensor&, const at::Tensor& y) {
  const auto [logits, targets] = as_pairs("binary-cross-entropy", outputs, y);
  return logits.gt(0).eq(targets.gt(0.5)).to(at::kDouble).mean(1);
}

/// The outputs that have a next token, [n, T - 1, tokens], those tokens, [n, T - 1], and the places that count.
struct NextTokens {
  at::Tensor outputs, tokens, counts;

  /// The mean over each example's places that count; 0 where none does.
  [[nodiscard]] at::Tensor mean(const at::Tensor& values) const {
    const at::Tensor kept = values.masked_fill(counts.logical_not(), 0);
    return kept.sum(1) / counts.sum(1).clamp_min(1).to(values.scalar_type());
  }
};

NextTokens next_tokens(const at::Tensor& outputs, const at::Tensor& x, std::optional<std::int64_t> padding) {
  const std::int64_t shortest = padding ? 1 : 2;
  if (x.scalar_type() != at::kLong || x.dim() != 2 || x.size(1) < shortest || outputs.dim() != 3 ||
      outputs.size(0) != x.size(0) || outputs.size(1) != x.size(1))
    throw UsageError("next-token got outputs " + described(outputs) + " for examples " + described(x),
                     "it takes tokens [n, T], stored as integers, and outputs [n, T, tokens], T at least 2");
  const std::int64_t places = x.size(1) - 1;
  const at::Tensor tokens = x.narrow(1, 1, places);
  return {outputs.narrow(1, 0, places), tokens,
          padding ? tokens.ne(*padding) : at::ones_like(tokens, at::TensorOptions(at::kBool))};
}

at::Tensor next_token_loss(const at::Tensor& outputs, const at::Tensor& x, std::optional<std::int64_t> padding) {
  const NextTokens next = next_tokens(outputs, x, padding);
  const at::Tensor log_probabilities = at::log_softmax(next.outputs, 2);
  const at::Tensor tokens = next.tokens.masked_fill(next.counts.logical_not(), 0);
  try {
    return next.mean(log_probabilities.gather(2, tokens.unsqueeze(2)).squeeze(2)).neg();
  } catch (const c10::Error& error) {
    if (std::string_view(error.what_without_backtrace()).find("out of bounds") == std::string_view::npos) throw;
    // Torch's message quotes the token, which is private.
    throw DataError("a token is not one of the " + std::to_string(outputs.size(2)) + " that the model knows", {},
                    "check the dataset with ripieno-dataset verify, or the size of the model's vocabulary");
  }
}

at::Tensor next_token_accuracy(const at::Tensor& outputs, const at::Tensor& x, std::optional<std::int64_t> padding) {
  const NextTokens next = next_tokens(outputs, x, padding);
  return next.mean(next.outputs.argmax(2).eq(next.tokens).to(at::kDouble));
}

Objective next_token(std::optional<std::int64_t> padding) {
  return {"next-token",
          [padding](const at::Tensor& outputs, const at::Tensor& x, const at::Tensor&) {
            return next_token_loss(outputs, x, padding);
          },
          [padding](const at::Tensor& outputs, const at::Tensor& x, const at::Tensor&) {
            return next_token_accuracy(outputs, x, padding);
          }};
}

const std::vector<Objective>& objectives() {
  static const std::vector<Objective> all = {{"cross-entropy",
                                              [](const at::Tensor& outputs, const at::Tensor&, const at::Tensor& y) {
                                                return softmax_cross_entropy(outputs, y);
                                              },
                                              [](const at::Tensor& outputs, const at::Tensor&, const at::Tensor& y) {
                                                return outputs.argmax(1).eq(y).to(at::kDouble);
                                              }},
                                             {"mse", squared_error},
                                             {"binary-cross-entropy", binary_cross_entropy, binary_accuracy},
                                             next_token({})};
  return all;
}

}  // namespace

Objective make_sequence_objective(const std::string& name, std::int64_t padding) {
  return name == "next-token" ? next_token(padding) : make_objective(name);
}

Objective make_objective(const std::string& name) {
  const auto found = std::ranges::find(objectives(), name, &Objective::name);
  if (found != objectives().end()) return *found;
  const std::vector<std::string> names = objective_names();
  const std::string guess = nearest(name, names);
  throw UsageError("there is no loss '" + name + "'", "there are " + join(names),
                   guess.empty() ? "" : "did you mean '" + guess + "'?");
}

std::vector<std::string> objective_names() {
  std::vector<std::string> names;
  for (const Objective& objective : objectives()) names.push_back(objective.name);
  return names;
}

}  // namespace ripieno
