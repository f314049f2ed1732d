#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <ripieno/framework/core/pytree.hpp>
#include <string>
#include <unordered_map>
#include <vector>

namespace ripieno {

/// A model as a function of its parameters.
struct Model {
  using Notes = std::unordered_map<std::string, std::string>;

  std::string name;
  PyTree params;  ///< the trained ones, float32, as initialised
  /// Outputs [n, ...] for examples x [n, ...], as they come out of the feature map where there is one: logits
  /// [n, num_classes] of the ready models. UsageError when the examples have another shape than the model was made for.
  std::function<at::Tensor(const PyTree& params, const at::Tensor& x)> forward;
  /// Maps examples [n, example_shape] to what `forward` takes; empty where that is the examples themselves. Public, and
  /// a map of each example by itself; float32 to float32.
  std::function<at::Tensor(const at::Tensor& x)> feature_map;
  /// Parameters that are not trained; their paths are none of those in `params`.
  PyTree frozen = {};
  /// Writes the model with these parameters, and notes by name, to a new file that Python opens; empty where all_params
  /// is all of it.
  std::function<void(const std::string& path, const PyTree& params, const Notes& notes)> save = {};
  /// Of the file that the model came from, in hexadecimal; empty where there was none.
  std::string sha256 = {};
};

/// What a model is made of.
///   linear    args: features = none | oriented-gradients, bias = true | false, init = zero | random
///   mlp       args: hidden = 1024,1024 (widths of the hidden layers), activation = relu | tanh
///   tanh-cnn  no args; two convolutions and two linear layers with tanh (Papernot et al., 2021)
///   resnet, wide-resnet       args: depth = 10 | 16 (6 n + 4), width = 1 | 4, groups = 8 | 16 of group normalisation,
///                             weight-standardisation = true | false; a wide-resnet is a WRN-16-4 (De et al., 2022)
///   transformer-encoder       args: width = 128, heads = 4, layers = 2; classes of token sequences, from the mean of
///                             what is not padding
///   transformer-decoder       the same args; logits [n, T, vocab_size] of the token after each place
/// The first of the values named is the default.
struct ModelSpec {
  std::string name;
  std::map<std::string, std::string> args = {};
  std::vector<std::int64_t> example_shape = {};  ///< of one: {28, 28}, {1, 28, 28}, {784}; {} for sequences
  std::int64_t num_classes = 0;                  ///< at least two, but for a transformer-decoder
  std::int64_t vocab_size = 0;                   ///< examples are tokens [0, vocab_size); 0: numbers
  std::int64_t pad_id = -1;                      ///< the token that fills short sequences; negative: none
  std::uint64_t seed = 0;                        ///< of the initialisation; public
};

/// The model with parameters drawn from the seed, the same on every rank and with every version of Torch. UsageError
/// for an unknown model, argument or value, naming the nearest, and for examples that the model cannot take.
[[nodiscard]] Model make_model(const ModelSpec& spec);

/// Names that make_model knows, sorted.
[[nodiscard]] std::vector<std::string> model_names();

/// A few lines for each of them: what it is and the arguments it takes.
[[nodiscard]] std::string describe_models();

/// Cross-entropy of each example: -log softmax(logits)[label]. logits [n, classes], labels int64 [n]; returns [n].
/// UsageError for other shapes or dtypes, DataError for a label that is not a class.
[[nodiscard]] at::Tensor softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace ripieno
