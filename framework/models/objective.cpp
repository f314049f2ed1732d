#include <ATen/ATen.h>

#include <algorithm>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/models/model.hpp>
#include <ripieno/framework/models/objective.hpp>
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

/// The outputs that have a next token, [n, T - 1, tokens], and those tokens, [n, T - 1].
Pairs next_tokens(const at::Tensor& outputs, const at::Tensor& x) {
  if (x.scalar_type() != at::kLong || x.dim() != 2 || x.size(1) < 2 || outputs.dim() != 3 ||
      outputs.size(0) != x.size(0) || outputs.size(1) != x.size(1))
    throw UsageError("next-token got outputs " + described(outputs) + " for examples " + described(x),
                     "it takes tokens [n, T], stored as integers, and outputs [n, T, tokens], T at least 2");
  const std::int64_t places = x.size(1) - 1;
  return {outputs.narrow(1, 0, places), x.narrow(1, 1, places)};
}

at::Tensor next_token_loss(const at::Tensor& outputs, const at::Tensor& x, const at::Tensor&) {
  const auto [logits, tokens] = next_tokens(outputs, x);
  const at::Tensor log_probabilities = at::log_softmax(logits, 2);
  try {
    return log_probabilities.gather(2, tokens.unsqueeze(2)).squeeze(2).mean(1).neg();
  } catch (const c10::Error& error) {
    if (std::string_view(error.what_without_backtrace()).find("out of bounds") == std::string_view::npos) throw;
    // Torch's message quotes the token, which is private.
    throw DataError("a token is not one of the " + std::to_string(logits.size(2)) + " that the model knows", {},
                    "check the dataset with ripieno-dataset verify, or the size of the model's vocabulary");
  }
}

at::Tensor next_token_accuracy(const at::Tensor& outputs, const at::Tensor& x, const at::Tensor&) {
  const auto [logits, tokens] = next_tokens(outputs, x);
  return logits.argmax(2).eq(tokens).to(at::kDouble).mean(1);
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
                                             {"next-token", next_token_loss, next_token_accuracy}};
  return all;
}

}  // namespace

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
