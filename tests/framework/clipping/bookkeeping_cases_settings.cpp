#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "bookkeeping_cases.hpp"

/// More settings of the layers in the other files, layers in bfloat16, and losses that need another engine.
namespace ripieno::cases {
namespace {

using torch::autograd::AutogradContext;

/// sin(x w): stands for any operation of a user.
struct SineOfProduct : torch::autograd::Function<SineOfProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w) {
    context->save_for_backward({x, w});
    return at::sin(x * w);
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const Tensors saved = context->get_saved_variables();
    const at::Tensor inner = gradients[0] * at::cos(saved[0] * saved[1]);
    return {inner * saved[1], (inner * saved[0]).sum(0)};
  }
};

/// tanh(linear(x)), computed again in the backward pass, as checkpointing does.
struct Checkpointed : torch::autograd::Function<Checkpointed> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
    context->save_for_backward({x, w, b});
    const at::NoGradGuard no_grad;
    return at::tanh(at::linear(x, w, b));
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const at::AutoGradMode grad_mode(true);
    Tensors inputs;
    for (const at::Tensor& tensor : context->get_saved_variables())
      inputs.push_back(tensor.detach().requires_grad_(true));
    const at::Tensor output = at::tanh(at::linear(inputs[0], inputs[1], inputs[2]));
    return torch::autograd::grad({output}, inputs, {gradients[0]});
  }
};

/// bfloat16 where autocast has it.
class Autocast {
 public:
  Autocast() : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool before_;
};

at::Tensor zeros_of(const at::Tensor& x, at::IntArrayRef shape) {
  return at::zeros(shape, x.options().requires_grad(false));
}

/// Starts of bags of `size` ids each.
at::Tensor starts_of(const at::Tensor& ids, std::int64_t size) { return at::arange(0, ids.numel(), size, at::kLong); }

void add_parameters_without_gradient(std::vector<Case>& list) {
  list.push_back({"FrozenTable", {parameter({9, 4}), parameter({3, 4})}, {ids({7}, 9)}, [](auto& p, auto& b) {
                    return some_loss(at::linear(at::embedding(p[0].detach(), b[0]), p[1]));
                  }});
  list.push_back({"FrozenConvolution", {parameter({6, 4, 3}), parameter({5, 6})}, {data({4, 9})}, [](auto& p, auto& b) {
                    const auto features = at::tanh(at::conv1d(b[0], p[0].detach())).mean(2);
                    return some_loss(at::linear(features, p[1]));
                  }});
  list.push_back({"GradientOfZero", {parameter({5, 4}), parameter({5})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0]) + p[1] * 0);
                  }});
  list.push_back({"GradientOfOneBranch", {parameter({5, 4}), parameter({5, 4})}, {data({4})}, [](auto& p, auto& b) {
                    const auto choice = b[0].select(1, 0).gt(0).unsqueeze(1);
                    return some_loss(at::where(choice, at::linear(b[0], p[0]), at::linear(b[0], p[1])));
                  }});
}

void add_more_convolutions(std::vector<Case>& list) {
  const auto add = [&](const char* name, Tensors params, std::vector<std::int64_t> input, LeafLoss loss) {
    list.push_back({name, std::move(params), {data(std::move(input))}, std::move(loss)});
  };
  add("Conv1dGroupsStride", {parameter({6, 2, 4}), parameter({6})}, {4, 11},
      [](auto& p, auto& b) { return some_loss(at::conv1d(b[0], p[0], p[1], 3, 2, 1, 2)); });
  add("Conv3dDilationGroups", {parameter({4, 1, 2, 2, 2})}, {2, 5, 5, 4}, [](auto& p, auto& b) {
    return some_loss(at::conv3d(b[0], p[0], {}, {1, 2, 1}, at::IntArrayRef{1, 0, 1}, {2, 1, 1}, 2));
  });
  add("ConvTranspose2dDilation", {parameter({4, 3, 3, 2})}, {4, 5, 5}, [](auto& p, auto& b) {
    return some_loss(at::conv_transpose2d(b[0], p[0], {}, {1, 2}, {0, 1}, at::IntArrayRef{0, 1}, 1, {2, 1}));
  });
  add("ConvTranspose3d", {parameter({2, 3, 2, 2, 2}), parameter({3})}, {2, 3, 4, 3},
      [](auto& p, auto& b) { return some_loss(at::conv_transpose3d(b[0], p[0], p[1], 2, 1)); });
}

void add_more_normalisations(std::vector<Case>& list) {
  list.push_back({"InstanceNorm1dNoBias", {parameter({4})}, {data({4, 9})}, [](auto& p, auto& b) {
                    return some_loss(at::instance_norm(b[0], p[0], {}, {}, {}, true, 0.1, 1e-3, false));
                  }});
  list.push_back({"InstanceNorm3d",
                  {parameter({3}), parameter({3}), parameter({3, 3, 1, 1, 1})},
                  {data({3, 2, 3, 4})},
                  [](auto& p, auto& b) {
                    const auto h = at::conv3d(b[0], p[2]);
                    return some_loss(at::instance_norm(h, p[0], p[1], {}, {}, true, 0.1, 1e-5, false));
                  }});
  list.push_back({"RootMeanSquareNormOverTwoDimensions", {parameter({7, 4})}, {data({3, 7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::rms_norm(b[0], {7, 4}, p[0], 1e-3));
                  }});
  list.push_back({"BatchNormInEvaluation", {parameter({4}), parameter({4})}, {data({4, 6, 6})}, [](auto& p, auto& b) {
                    const auto mean = zeros_of(b[0], {4}) + 0.3, variance = zeros_of(b[0], {4}) + 2;
                    return some_loss(at::batch_norm(b[0], p[0], p[1], mean, variance, false, 0.1, 1e-5, false));
                  }});
}

void add_more_elementwise(std::vector<Case>& list) {
  const at::Tensor positive = parameter({4}).abs() + 1;
  list.push_back(
      {"PReLU", {parameter({4})}, {data({4, 6})}, [](auto& p, auto& b) { return some_loss(at::prelu(b[0], p[0])); }});
  list.push_back({"PReLUOneSlope", {parameter({1})}, {data({4, 6})}, [](auto& p, auto& b) {
                    return some_loss(at::prelu(b[0], p[0]));
                  }});
  list.push_back(
      {"PowersAndQuotients", {positive, parameter({4}), parameter({4})}, {data({7, 4})}, [](auto& p, auto& b) {
         return some_loss(at::addcmul(p[2], (b[0].abs() + 0.1).pow(p[0]) / p[0], p[1]));
       }});
  list.push_back({"ChoiceOfTwo", {parameter({4}), parameter({4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::where(b[0] > 0, p[0], p[1]) * b[0]);
                  }});
  list.push_back({"MovedTowards", {parameter({4}), parameter({})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::maximum(at::lerp(b[0], p[0], 0.3), p[1]));
                  }});
}

at::Tensor lstm(const Tensors& p, const at::Tensor& x, std::int64_t layers, bool biases, bool both_ways, bool cell) {
  const at::Tensor start = zeros_of(x, {layers * (both_ways ? 2 : 1), x.size(0), 3});
  const auto [outputs, hidden, state] =
      at::lstm(x, {start, start}, p, biases, layers, 0.0, /*train=*/true, both_ways, /*batch_first=*/true);
  return cell ? some_loss(outputs) + some_loss(state.transpose(0, 1)) : some_loss(outputs);
}

/// Parameters of LSTM layers with 3 hidden units over 4 inputs; `gates` 3 for a GRU.
Tensors recurrent_parameters(std::int64_t layers, bool biases, bool both_ways, std::int64_t gates = 4) {
  Tensors params;
  const std::int64_t directions = both_ways ? 2 : 1;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      params.push_back(parameter({3 * gates, layer == 0 ? 4 : 3 * directions}));
      params.push_back(parameter({3 * gates, 3}));
      if (!biases) continue;
      params.push_back(parameter({3 * gates}));
      params.push_back(parameter({3 * gates}));
    }
  return params;
}

}  // namespace

void add_fused_recurrent(std::vector<Case>& list) {
  list.push_back({"Lstm", recurrent_parameters(1, true, false), {data({5, 4})}, [](auto& p, auto& b) {
                    return lstm(p, b[0], 1, true, false, false);
                  }});
  list.push_back({"LstmCellStateInTheLoss", recurrent_parameters(1, true, false), {data({5, 4})}, [](auto& p, auto& b) {
                    return lstm(p, b[0], 1, true, false, true);
                  }});
  list.push_back({"LstmTwoLayersBothWays", recurrent_parameters(2, true, true), {data({5, 4})}, [](auto& p, auto& b) {
                    return lstm(p, b[0], 2, true, true, false);
                  }});
  list.push_back({"LstmNoBias", recurrent_parameters(1, false, false), {data({3, 4})}, [](auto& p, auto& b) {
                    return lstm(p, b[0], 1, false, false, false);
                  }});
  list.push_back({"GruTwoLayersBothWays", recurrent_parameters(2, true, true, 3), {data({5, 4})}, [](auto& p, auto& b) {
                    const auto start = zeros_of(b[0], {4, b[0].size(0), 3});
                    return some_loss(std::get<0>(at::gru(b[0], start, p, true, 2, 0.0, true, true, true)));
                  }});
}

void add_embedding_bags(std::vector<Case>& list) {
  const auto bag = [](const Tensors& p, const Tensors& b, std::int64_t size, std::int64_t mode, std::int64_t padding) {
    const at::Tensor weights = b.size() > 1 ? b[1].flatten() : at::Tensor();
    return std::get<0>(at::embedding_bag(p[0], b[0].flatten(), starts_of(b[0], size), false, mode, false,
                                         weights.defined() ? std::optional(weights) : std::nullopt, false, padding));
  };
  list.push_back({"EmbeddingBagSum", {parameter({9, 4})}, {ids({7}, 9)}, [=](auto& p, auto& b) {
                    return some_loss(bag(p, b, 7, 0, -1));
                  }});
  list.push_back({"EmbeddingBagMean", {parameter({9, 4})}, {ids({7}, 9)}, [=](auto& p, auto& b) {
                    return some_loss(bag(p, b, 7, 1, -1));
                  }});
  list.push_back({"EmbeddingBagMax", {parameter({9, 4})}, {ids({7}, 9)}, [=](auto& p, auto& b) {
                    return some_loss(bag(p, b, 7, 2, -1));
                  }});
  list.push_back({"EmbeddingBagWeighted", {parameter({9, 4})}, {ids({6}, 9), data({6})}, [=](auto& p, auto& b) {
                    return some_loss(bag(p, b, 6, 0, -1));
                  }});
  list.push_back({"EmbeddingBagPadding", {parameter({5, 4})}, {ids({7}, 5)}, [=](auto& p, auto& b) {
                    return some_loss(bag(p, b, 7, 1, 2));
                  }});
  list.push_back({"EmbeddingBagsOfThree", {parameter({9, 4}), parameter({2, 8})}, {ids({6}, 9)}, [=](auto& p, auto& b) {
                    return some_loss(at::linear(bag(p, b, 3, 1, -1).view({b[0].size(0), 8}), p[1]));
                  }});
}

void add_more_settings(std::vector<Case>& list) {
  add_parameters_without_gradient(list);
  add_more_convolutions(list);
  add_more_normalisations(list);
  add_more_elementwise(list);
}

const std::vector<Case>& in_reduced_precision() {
  static const std::vector<Case> list = [] {
    at::manual_seed(19);
    std::vector<Case> cases;
    cases.push_back({"CastLinear", {parameter({5, 4})}, {data({4})}, [](auto& p, auto& b) {
                       return some_loss(at::linear(b[0].to(at::kBFloat16), p[0].to(at::kBFloat16)).to(at::kFloat));
                     }});
    cases.push_back({"AutocastSequence",
                     {parameter({16, 8}), parameter({16}), parameter({3, 16}), parameter({16})},
                     {data({7, 8})},
                     [](auto& p, auto& b) {
                       at::Tensor h;
                       {
                         const Autocast autocast;
                         h = at::tanh(at::linear(b[0], p[0], p[1]) * p[3]);
                         h = at::linear(h, p[2]);
                       }
                       return some_loss(h.to(at::kFloat));
                     }});
    cases.push_back({"AutocastConvolution",
                     {parameter({6, 4, 3, 3}), parameter({6}), parameter({6}), parameter({6})},
                     {data({4, 6, 6})},
                     [](auto& p, auto& b) {
                       const Autocast autocast;
                       const auto h = at::conv2d(b[0], p[0], p[1], 1, 1);
                       return some_loss(at::group_norm(h.to(p[2].scalar_type()), 2, p[2], p[3]));
                     }});
    cases.push_back(
        {"AutocastTiedAndSliced", {parameter({8, 4}), parameter({4, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
           const Autocast autocast;
           const auto h = at::tanh(at::linear(b[0], p[0].slice(0, 2, 6)));
           return some_loss(at::linear(at::linear(h, p[1]), p[1]).to(at::kFloat));
         }});
    return cases;
  }();
  return list;
}

const std::vector<Case>& for_other_engines() {
  static const std::vector<Case> list = [] {
    at::manual_seed(13);
    std::vector<Case> cases;
    cases.push_back({"Bilinear", {parameter({5, 4, 3}), parameter({5})}, {data({4}), data({3})}, [](auto& p, auto& b) {
                       return some_loss(at::bilinear(b[0], b[1], p[0], p[1]));
                     }});
    cases.push_back({"DistancesToACodebook", {parameter({5, 4})}, {data({4})}, [](auto& p, auto& b) {
                       return some_loss(at::cdist(b[0], p[0]));
                     }});
    cases.push_back({"UsersOwnOperation", {parameter({4}), parameter({4, 4})}, {data({4})}, [](auto& p, auto& b) {
                       return some_loss(SineOfProduct::apply(at::linear(b[0], p[1]), p[0]));
                     }});
    cases.push_back(
        {"Checkpoint", {parameter({5, 4}), parameter({5}), parameter({4, 4})}, {data({4})}, [](auto& p, auto& b) {
           return some_loss(Checkpointed::apply(at::linear(b[0], p[2]), p[0], p[1]));
         }});
    cases.push_back({"SliceScaledInPlace", {parameter({2}), parameter({5, 4})}, {data({4})}, [](auto& p, auto& b) {
                       auto h = at::linear(b[0], p[1]).clone();
                       h.slice(1, 0, 2).mul_(p[0]);
                       return some_loss(h);
                     }});
    cases.push_back(
        {"ElementwiseThatNoTableKnows", {parameter({4}), parameter({5, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
           return some_loss(at::linear(at::hypot(b[0], p[0]), p[1]));
         }});
    return cases;
  }();
  return list;
}

}  // namespace ripieno::cases
