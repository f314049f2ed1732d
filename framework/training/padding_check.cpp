#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/sampling/shard_dataset.hpp>
#include <ripieno/framework/training/padding_check.hpp>
#include <ripieno/io/shard_set.hpp>

namespace ripieno {
namespace {

constexpr std::array<std::int64_t, 4> k_lengths{1, 3, 5, 8};

/// Sequences of these lengths of tokens that the data might hold, padded to `width`.
at::Tensor synthetic_sequences(const io::ShardSet& data, std::int64_t width) {
  at::Tensor x = at::full({std::ssize(k_lengths), width}, data.pad_id(), at::kLong);
  const std::int64_t tokens = std::max<std::int64_t>(2, data.vocab_size());
  for (std::int64_t row = 0; row < std::ssize(k_lengths); ++row) {
    for (std::int64_t place = 0; place < k_lengths[static_cast<std::size_t>(row)]; ++place) {
      std::int64_t token = (7 * row + 3 * place + 1) % tokens;
      if (token == data.pad_id()) token = (token + 1) % tokens;
      x[row][place] = token;
    }
  }
  return x;
}

at::Tensor synthetic_targets(const RunInputs& inputs) {
  if (!inputs.train->has_labels()) return at::tensor(at::ArrayRef<std::int64_t>(k_lengths), at::kLong);
  const at::Tensor none = ShardDataset(inputs.train).gather({}).second;
  std::vector<std::int64_t> sizes = none.sizes().vec();
  sizes[0] = std::ssize(k_lengths);
  return at::zeros(sizes, none.options());
}

}  // namespace

void check_padding(const RunInputs& inputs, at::Device device) {
  const at::NoGradGuard no_grad;
  const LossFn loss = loss_of(inputs);
  const PyTree params = inputs.model.params.map([device](const at::Tensor& leaf) { return leaf.to(device); });
  const at::Tensor y = synthetic_targets(inputs).to(device);
  const auto losses = [&](std::int64_t width) {
    const at::Tensor x = synthetic_sequences(*inputs.train, width);
    const Model& model = inputs.model;
    const at::Tensor features = (model.feature_map ? model.feature_map(x) : x).to(device);
    return loss(params, std::array{features, y}).to(at::kDouble);
  };
  const double tolerance = inputs.precision == "bf16" ? 0.05 : 1e-3;
  if (at::allclose(losses(k_lengths.back()), losses(k_lengths.back() + 9), tolerance, 1e-5)) return;
  throw PrivacyError(
      "model " + inputs.model.name + " computes another loss for a sequence that is padded further",
      "the length of one record would change what others contribute, which no clipping norm bounds",
      "let the model leave out places that hold the padding token " + std::to_string(inputs.train->pad_id()));
}

}  // namespace ripieno
