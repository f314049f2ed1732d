#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/vmap_refusal.hpp>
#include <string>
#include <string_view>

namespace ripieno {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// The first word after `before`, up to one of `ends`; nothing when `before` does not occur.
std::optional<std::string> word_after(std::string_view text, std::string_view before, std::string_view ends) {
  const std::size_t start = text.find(before);
  if (start == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(start + before.size());
  return std::string(rest.substr(0, rest.find_first_of(ends)));
}

/// The operator that functorch would have had to run once per example.
std::optional<std::string> operator_without_rule(std::string_view text) {
  if (contains(text, " hit the vmap fallback")) return word_after(text, "", " ");
  return word_after(text, "Batching rule not implemented for ", ".; ");
}

/// In-place operators fail in three ways: they have no room for all examples, they would write into a tensor from
/// outside the loss, or the shapes of both sides no longer fit.
bool changes_shared_tensor(std::string_view text) {
  return contains(text, "(self, *extra_args) is not possible") || contains(text, "would mutate a captured Tensor") ||
         contains(text, "doesn't match the broadcast shape");
}

}  // namespace

void refuse_vmap(const c10::Error& error) {
  const std::string whole = error.what_without_backtrace();
  const std::string_view text = std::string_view(whole).substr(0, whole.find('\n'));
  if (const std::optional<std::string> name = operator_without_rule(text))
    throw UsageError(
        "engine vmap cannot run " + *name + " on all examples at once", "functorch has no batching rule for it",
        "use engine loop, or other operators: log_softmax and gather for cross entropy, matmul and softmax "
        "for attention");
  if (contains(text, ".item()"))
    throw UsageError("the loss takes a value out of a tensor, as item() or a branch on it does",
                     "under vmap one tensor stands for many examples",
                     "choose with at::where, keep values in tensors, or use engine loop");
  if (contains(text, "running_mean"))
    throw UsageError("the loss updates the running statistics of a batch normalisation",
                     "they carry private examples out of the step", "use GroupNorm or LayerNorm, or evaluation mode");
  if (changes_shared_tensor(text))
    throw UsageError(
        "the loss changes a tensor in place that all examples share",
        "under vmap it would have to take another value for each of them",
        "use the operator that returns a new tensor, start from zeros_like of a batch tensor, or use engine "
        "loop");
  if (contains(text, "autograd::Function"))
    throw UsageError("the loss uses a C++ autograd::Function", "functorch cannot transform it",
                     "use engine bookkeeping or loop");
  throw UsageError("the loss does not run under vmap", text,
                   "make constants outside of it, and use engine loop if that does not help");
}

}  // namespace ripieno
