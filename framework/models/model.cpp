#include <ripieno/framework/models/model.hpp>

#include <ATen/ATen.h>

#include <iomanip>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/models/builders.hpp>
#include <ripieno/framework/models/text.hpp>
#include <sstream>

namespace ripieno {
namespace models {

ImageShape image_shape(const ModelSpec& spec) {
  const std::vector<std::int64_t>& shape = spec.example_shape;
  if (shape.size() == 2) return {.channels = 1, .height = shape[0], .width = shape[1]};
  if (shape.size() == 3) return {.channels = shape[0], .height = shape[1], .width = shape[2]};
  throw UsageError("model " + spec.name + " cannot take examples of shape " + shape_text(shape),
                   "it takes images, [H, W] or [C, H, W]");
}

std::int64_t example_size(const ModelSpec& spec) {
  return std::accumulate(spec.example_shape.begin(), spec.example_shape.end(), std::int64_t{1}, std::multiplies<>());
}

at::Tensor as_examples(const at::Tensor& x, const std::string& model, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> batch_shape = {x.dim() > 0 ? x.size(0) : 0};
  batch_shape.insert(batch_shape.end(), shape.begin(), shape.end());
  const std::int64_t wanted =
      std::accumulate(batch_shape.begin(), batch_shape.end(), std::int64_t{1}, std::multiplies<>());
  if (x.dim() == 0 || x.numel() != wanted) {
    throw UsageError("model " + model + " got a batch of shape " + shape_text(x.sizes()),
                     "it was made for examples of shape " + shape_text(shape));
  }
  // Integers that the data does not scale come as they are.
  const at::Tensor shaped = x.reshape(batch_shape);
  return shaped.is_floating_point() ? shaped : shaped.to(at::kFloat);
}

}  // namespace models

namespace {

struct Entry {
  Model (*make)(const ModelSpec&);
  const char* summary;
  const char* arguments;
};

const std::map<std::string, Entry>& entries() {
  constexpr const char* k_residual = "depth (6 n + 4), width, groups, weight-standardisation=true|false";
  static const std::map<std::string, Entry> table = {
      {"linear",
       {models::make_linear, "one linear layer",
        "features=none|oriented-gradients, bias=true|false, init=zero|random"}},
      {"mlp",
       {models::make_mlp, "linear layers with activations between them", "hidden=1024,1024, activation=relu|tanh"}},
      {"resnet", {models::make_resnet, "residual network of 10 layers, group normalisation", k_residual}},
      {"tanh-cnn", {models::make_tanh_cnn, "two convolutions and two linear layers with tanh", ""}},
      {"transformer-decoder",
       {models::make_transformer_decoder, "the next of a sequence of tokens (--loss next-token)",
        "width=128, heads=4, layers=2"}},
      {"transformer-encoder",
       {models::make_transformer_encoder, "classes of sequences of tokens", "width=128, heads=4, layers=2"}},
      {"wide-resnet", {models::make_wide_resnet, "residual network of 16 layers, four times as wide", k_residual}}};
  return table;
}

void check_spec(const ModelSpec& spec) {
  if (spec.num_classes < 2 && spec.vocab_size == 0) {
    throw UsageError("model " + spec.name + " was asked for " + std::to_string(spec.num_classes) + " classes",
                     "a classifier has at least two", "say how many classes the dataset has");
  }
  bool sound = !spec.example_shape.empty() || spec.vocab_size > 0;
  for (const std::int64_t size : spec.example_shape) sound = sound && size > 0;
  if (!sound) {
    throw UsageError("model " + spec.name + " cannot take examples of shape " + shape_text(spec.example_shape),
                     "each dimension must be at least 1");
  }
}

}  // namespace

Model make_model(const ModelSpec& spec) {
  const auto entry = entries().find(spec.name);
  if (entry == entries().end()) {
    const std::vector<std::string> names = model_names();
    const std::string guess = nearest(spec.name, names);
    throw UsageError("there is no model '" + spec.name + "'", "there are " + join(names),
                     guess.empty() ? "" : "did you mean '" + guess + "'?");
  }
  check_spec(spec);
  return entry->second.make(spec);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries()) names.push_back(name);
  return names;
}

std::string describe_models() {
  constexpr int k_indent = 22;
  std::ostringstream text;
  for (const auto& [name, entry] : entries()) {
    text << std::left << std::setw(k_indent) << name << entry.summary << '\n';
    if (*entry.arguments != '\0') text << std::string(k_indent, ' ') << entry.arguments << '\n';
  }
  return text.str();
}

at::Tensor softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  if (logits.dim() != 2 || labels.dim() != 1 || labels.scalar_type() != at::kLong || logits.size(0) != labels.size(0)) {
    throw UsageError("cross-entropy got logits of shape " + shape_text(logits.sizes()) + " and " +
                         std::string(at::toString(labels.scalar_type())) + " labels of shape " +
                         shape_text(labels.sizes()),
                     "it takes logits [n, classes] and int64 labels [n]");
  }
  const at::Tensor log_probabilities = at::log_softmax(logits, 1);
  try {
    return log_probabilities.gather(1, labels.unsqueeze(1)).squeeze(1).neg();
  } catch (const c10::Error&) {
    // Torch's message quotes the label, which is private.
    throw DataError("a label is not one of the " + std::to_string(logits.size(1)) + " classes", {},
                    "check the dataset with ripieno-dataset verify, or the number of classes");
  }
}

}  // namespace ripieno
