#include "bookkeeping_cases.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

namespace ripieno::cases {

using Shape = std::vector<std::int64_t>;

namespace {

void add_linear(std::vector<Case>& list) {
  list.push_back({"Linear2d", {parameter({5, 4}), parameter({5})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0], p[1]));
                  }});
  list.push_back({"Linear2dNoBias", {parameter({5, 4})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0]));
                  }});
  list.push_back({"Linear3d", {parameter({5, 4}), parameter({5})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0], p[1]));
                  }});
  list.push_back({"Linear3dNoBias", {parameter({5, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0]));
                  }});
  list.push_back({"Linear4d", {parameter({5, 4}), parameter({5})}, {data({2, 3, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0], p[1]));
                  }});
  list.push_back({"Linear3dNotContiguous", {parameter({5, 4}), parameter({5})}, {data({4, 7})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0].transpose(1, 2), p[0], p[1]));
                  }});
  list.push_back(
      {"LinearTimeFirst", {parameter({5, 4}), parameter({5}), parameter({5, 5})}, {data({7, 4})}, [](auto& p, auto& b) {
         const auto h = at::tanh(at::linear(b[0].transpose(0, 1).contiguous(), p[0], p[1]));
         return some_loss(at::linear(h, p[2]).transpose(0, 1));
       }});
  list.push_back(
      {"LinearExamplesInTheMiddle", {parameter({5, 4}), parameter({5})}, {data({2, 3, 4})}, [](auto& p, auto& b) {
         return some_loss(at::linear(b[0].transpose(0, 1).contiguous(), p[0], p[1]).transpose(0, 1));
       }});
  list.push_back({"MatmulRight", {parameter({4, 5})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::matmul(b[0], p[0]));
                  }});
  list.push_back({"MatmulRight2d", {parameter({4, 5})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::matmul(b[0], p[0]));
                  }});
  list.push_back({"MatmulLeft2d", {parameter({5, 4})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::mm(p[0], b[0].t()).t());
                  }});
  list.push_back({"MatrixTimesVector", {parameter({4})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::mv(b[0], p[0]).unsqueeze(1));
                  }});
  list.push_back({"MatmulVector3d", {parameter({4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::matmul(b[0], p[0]));
                  }});
  list.push_back({"AddmmAlphaBeta", {parameter({4, 5}), parameter({5})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::addmm(p[1], b[0], p[0], 0.5, 2.0));
                  }});
  list.push_back({"DataTimesReshapedParameter", {parameter({20})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0].view({5, 4})));
                  }});
}

void add_convolutions(std::vector<Case>& list) {
  const auto add = [&](const char* name, const Shape& weight, const Shape& bias, const Shape& input, LeafLoss loss) {
    const Tensors params = bias.empty() ? Tensors{parameter(weight)} : Tensors{parameter(weight), parameter(bias)};
    list.push_back({name, params, {data(input)}, std::move(loss)});
  };
  add("Conv1dStridePadding", {6, 4, 3}, {6}, {4, 9},
      [](auto& p, auto& b) { return some_loss(at::conv1d(b[0], p[0], p[1], 2, 1)); });
  add("Conv1dDilation", {6, 4, 3}, {}, {4, 9},
      [](auto& p, auto& b) { return some_loss(at::conv1d(b[0], p[0], {}, 1, 2, 2)); });
  add("Conv2d", {6, 4, 3, 3}, {6}, {4, 8, 8},
      [](auto& p, auto& b) { return some_loss(at::conv2d(b[0], p[0], p[1], 1, 1)); });
  add("Conv2dManyChannels", {20, 3, 3, 3}, {20}, {3, 8, 8},
      [](auto& p, auto& b) { return some_loss(at::conv2d(b[0], p[0], p[1], 1, 1)); });
  add("Conv2dStridePaddingDilation", {6, 4, 3, 3}, {6}, {4, 9, 9}, [](auto& p, auto& b) {
    return some_loss(at::conv2d(b[0], p[0], p[1], {2, 2}, at::IntArrayRef{1, 1}, {2, 2}));
  });
  add("Conv2dTallKernel", {6, 4, 3, 1}, {}, {4, 8, 7}, [](auto& p, auto& b) {
    return some_loss(at::conv2d(b[0], p[0], {}, {1, 2}, at::IntArrayRef{2, 0}));
  });
  add("Conv2dGroups", {6, 2, 3, 3}, {6}, {4, 8, 8},
      [](auto& p, auto& b) { return some_loss(at::conv2d(b[0], p[0], p[1], 1, 1, 1, 2)); });
  add("Conv2dDepthwise", {4, 1, 3, 3}, {}, {4, 8, 8},
      [](auto& p, auto& b) { return some_loss(at::conv2d(b[0], p[0], {}, 1, 1, 1, 4)); });
  add("Conv2dSame", {6, 4, 4, 3}, {6}, {4, 8, 8},
      [](auto& p, auto& b) { return some_loss(at::conv2d(b[0], p[0], p[1], 1, "same")); });
  add("Conv2dChannelsLast", {6, 4, 3, 3}, {6}, {4, 8, 8}, [](auto& p, auto& b) {
    return some_loss(at::conv2d(b[0].contiguous(at::MemoryFormat::ChannelsLast), p[0], p[1], 1, 1));
  });
  add("Conv2dCircularPadding", {6, 4, 3, 3}, {6}, {4, 8, 8}, [](auto& p, auto& b) {
    return some_loss(at::conv2d(at::pad(b[0], {1, 1, 1, 1}, "circular"), p[0], p[1]));
  });
  add("Conv2dFrames", {6, 4, 3, 3}, {6}, {3, 4, 6, 6}, [](auto& p, auto& b) {
    return some_loss(at::conv2d(b[0].flatten(0, 1), p[0], p[1], 1, 1).unflatten(0, {b[0].size(0), 3}));
  });
  add("Conv3d", {3, 2, 2, 2, 2}, {3}, {2, 4, 5, 4},
      [](auto& p, auto& b) { return some_loss(at::conv3d(b[0], p[0], p[1], 1, 1)); });
  add("Conv3dStride", {3, 2, 2, 3, 1}, {}, {2, 6, 5, 4}, [](auto& p, auto& b) {
    return some_loss(at::conv3d(b[0], p[0], {}, {2, 1, 1}, at::IntArrayRef{0, 1, 0}));
  });
  add("ConvTranspose2d", {4, 6, 3, 3}, {6}, {4, 5, 5},
      [](auto& p, auto& b) { return some_loss(at::conv_transpose2d(b[0], p[0], p[1], 2, 1, 1)); });
  add("ConvTranspose2dGroups", {4, 3, 3, 3}, {6}, {4, 5, 5},
      [](auto& p, auto& b) { return some_loss(at::conv_transpose2d(b[0], p[0], p[1], 2, 1, 1, 2)); });
  add("ConvTranspose1d", {4, 6, 3}, {}, {4, 5},
      [](auto& p, auto& b) { return some_loss(at::conv_transpose1d(b[0], p[0], {}, 2)); });
  add("TiedConvolution", {4, 4, 3, 3}, {}, {4, 6, 6}, [](auto& p, auto& b) {
    return some_loss(at::conv2d(at::tanh(at::conv2d(b[0], p[0], {}, 1, 1)), p[0], {}, 1, 1));
  });
}

void add_elementwise(std::vector<Case>& list) {
  list.push_back({"ScaleAndShift", {parameter({4}), parameter({4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(b[0] * p[0] + p[1]);
                  }});
  list.push_back(
      {"ScalePerChannel", {parameter({4, 1, 1}), parameter({4, 1, 1})}, {data({4, 5, 5})}, [](auto& p, auto& b) {
         return some_loss(at::sigmoid(b[0]) * p[0] - p[1]);
       }});
  list.push_back({"SumsWithFactors",
                  {parameter({4}), parameter({1, 5, 1}), parameter({4}), parameter({5, 4})},
                  {data({7, 5, 4})},
                  [](auto& p, auto& b) {
                    const at::Tensor x = at::sub(at::add(at::tanh(b[0]), p[0], 0.7), p[1], 1.3);
                    return some_loss(at::tanh(at::add(p[2], at::sub(p[3], x, -0.6), 0.4)));
                  }});
  list.push_back(
      {"ScalarParameter", {parameter({})}, {data({7, 4})}, [](auto& p, auto& b) { return some_loss(b[0] * p[0]); }});
  list.push_back({"PositionTable", {parameter({7, 4}), parameter({4, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(at::tanh(b[0] + p[0].unsqueeze(0)), p[1]));
                  }});
  list.push_back({"PositionTableExpanded", {parameter({7, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::tanh(b[0] + p[0].expand({b[0].size(0), 7, 4})));
                  }});
  list.push_back({"PositionTableSliced", {parameter({20, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::tanh(b[0] + p[0].slice(0, 0, 7)));
                  }});
  list.push_back({"ClassToken", {parameter({1, 1, 4}), parameter({4, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(at::cat({p[0].expand({b[0].size(0), 1, 4}), b[0]}, 1), p[1]));
                  }});
  list.push_back({"InPlaceBias", {parameter({5, 4}), parameter({5})}, {data({4})}, [](auto& p, auto& b) {
                    auto h = at::linear(b[0], p[0]);
                    h.add_(p[1]);
                    return some_loss(at::tanh(h));
                  }});
}

void add_models(std::vector<Case>& list) {
  list.push_back(perceptron(k_examples));
  list.push_back(convolutional(k_examples));
  list.push_back(sequence(k_examples));
  list.push_back(mixed_layers(k_examples));
  list.push_back({"TiedLinear", {parameter({4, 4}), parameter({4})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(at::tanh(at::linear(b[0], p[0], p[1])), p[0], p[1]));
                  }});
  list.push_back({"TiedLinear3d", {parameter({4, 4}), parameter({4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(at::tanh(at::linear(b[0], p[0], p[1])), p[0], p[1]));
                  }});
  list.push_back({"TiedWithTranspose", {parameter({5, 4})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(at::tanh(at::linear(b[0], p[0])), p[0].t()));
                  }});
  list.push_back(
      {"TwoPaths", {parameter({4})}, {data({7, 4})}, [](auto& p, auto& b) { return some_loss(p[0] * b[0] + p[0]); }});
  list.push_back({"UnusedParameter", {parameter({5, 4}), parameter({3})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0]));
                  }});
  list.push_back({"FrozenParameter", {parameter({5, 4}), parameter({5})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0], p[1].detach()));
                  }});
  list.push_back({"SquaredErrorWithWeights",
                  {parameter({2, 4}), parameter({2})},
                  {data({4}), data({2}), at::rand({k_examples}, at::kDouble)},
                  [](auto& p, auto& b) { return (at::linear(b[0], p[0], p[1]) - b[1]).square().sum(1) * b[2]; }});
  list.push_back({"MaskedSteps",
                  {parameter({5, 4}), parameter({5})},
                  {data({7, 4}), at::arange(k_examples * 7, at::kLong).view({k_examples, 7}).remainder(3).ne(0)},
                  [](auto& p, auto& b) {
                    const auto h = at::tanh(at::linear(b[0], p[0], p[1])).square().sum(2);
                    return (h * b[1].to(h.scalar_type())).sum(1);
                  }});
  list.push_back({"LastLayerStartsAtZero",
                  {parameter({5, 4}), at::zeros({3, 5}, at::kDouble)},
                  {data({7, 4}), labels(3)},
                  [](auto& p, auto& b) {
                    return cross_entropy(at::linear(at::tanh(at::linear(b[0], p[0])).mean(1), p[1]), b[1]);
                  }});
}

std::vector<Case> make_served() {
  at::manual_seed(3);
  std::vector<Case> list;
  add_linear(list);
  add_convolutions(list);
  add_elementwise(list);
  add_models(list);
  add_embeddings(list);
  add_normalisations(list);
  add_batched_products(list);
  add_attention(list);
  add_computed_parameters(list);
  add_recurrent(list);
  add_fused_recurrent(list);
  add_embedding_bags(list);
  add_more_settings(list);
  return list;
}

std::vector<Case> make_mixing() {
  at::manual_seed(5);
  const at::Tensor w = parameter({5, 4}), x = data({4});
  const auto linear = [](auto& p, auto& b) { return at::linear(b[0], p[0]); };
  std::vector<Case> list;
  const auto add = [&](const char* name, LeafLoss loss) { list.push_back({name, {w}, {x}, std::move(loss)}); };
  add("MeanOfLossesAdded", [=](auto& p, auto& b) {
    const auto l = some_loss(linear(p, b));
    return l + 1e-4 * l.mean();
  });
  add("DataCentred", [](auto& p, auto& b) { return some_loss(at::linear(b[0] - 1e-3 * b[0].mean(0, true), p[0])); });
  add("DetachedActivationMean", [=](auto& p, auto& b) {
    const auto h = linear(p, b);
    return some_loss(h - h.detach().mean(0, true));
  });
  add("LossDividedByBatchSize",
      [=](auto& p, auto& b) { return some_loss(linear(p, b)) / static_cast<double>(b[0].size(0)); });
  add("Contrastive", [=](auto& p, auto& b) {
    const auto h = linear(p, b);
    return -at::log_softmax(at::mm(h, h.t()), 1).diagonal();
  });
  add("HardNegatives", [=](auto& p, auto& b) {
    const auto h = linear(p, b);
    const auto nearest = at::mm(h, h.t()).detach().fill_diagonal_(-1e9).argmax(1);
    return some_loss(h) + 0.1 * (h * h.detach().index_select(0, nearest)).sum(1);
  });
  add("LossesSorted", [=](auto& p, auto& b) { return std::get<0>(some_loss(linear(p, b)).sort()); });
  add("OnlyTheLargestLossesKept", [=](auto& p, auto& b) {
    const auto l = some_loss(linear(p, b));
    return l * (l >= std::get<0>(l.detach().topk(1)).min()).to(l.scalar_type());
  });
  list.push_back({"BatchNorm", {parameter({4, 4, 3, 3})}, {data({4, 6, 6})}, [](auto& p, auto& b) {
                    const auto h = at::conv2d(b[0], p[0]);
                    return some_loss(at::batch_norm(h, {}, {}, {}, {}, true, 0.1, 1e-5, false));
                  }});
  list.push_back({"LabelCountsInTheLoss", {w}, {x, labels(2)}, [=](auto& p, auto& b) {
                    const auto l = some_loss(linear(p, b));
                    return l / at::bincount(b[1], {}, 2).to(l.scalar_type()).index_select(0, b[1]);
                  }});
  list.push_back({"EmbeddingScaledByFrequency", {parameter({9, 4})}, {ids({7}, 9)}, [](auto& p, auto& b) {
                    return some_loss(at::embedding(p[0], b[0], -1, /*scale_grad_by_freq=*/true));
                  }});
  add("OnlyTheTwoLargestLossesKept", [=](auto& p, auto& b) {
    const auto l = some_loss(linear(p, b));
    return l * (l >= std::get<0>(l.detach().topk(2)).min()).to(l.scalar_type());
  });
  list.push_back({"IdCountsInTheLoss", {parameter({9, 4})}, {ids({}, 9)}, [](auto& p, auto& b) {
                    const auto counts = at::bincount(b[0], {}, 9).to(p[0].scalar_type()).index_select(0, b[0]);
                    return some_loss(at::embedding(p[0], b[0])) / counts;
                  }});
  list.push_back(
      {"CentredOnARareValue", {w}, {x.clone().index_fill(1, at::zeros({1}, at::kLong), 7.0)}, [=](auto& p, auto& b) {
         auto h = linear(p, b);
         if (b[0].max().template item<double>() > 6) h = h - h.mean(0, true);
         return some_loss(h);
       }});
  const at::Tensor captured = x.clone();
  add("CapturedTensorOfBatchSize",
      [captured](auto& p, auto& b) { return some_loss(at::linear(b[0] + captured.to(b[0].scalar_type()), p[0])); });
  return list;
}

std::vector<UnknownCase> make_unknown() {
  at::manual_seed(7);
  return {
      {{"EmbeddingWithSparseGradient",
        {parameter({9, 4})},
        {ids({7}, 9)},
        [](auto& p, auto& b) { return some_loss(at::embedding(p[0], b[0], -1, false, /*sparse=*/true)); }},
       "EmbeddingBackward0"},
      {{"Bilinear",
        {parameter({5, 4, 3})},
        {data({4}), data({3})},
        [](auto& p, auto& b) { return some_loss(at::bilinear(b[0], b[1], p[0], {})); }},
       "TrilinearBackward0"},
  };
}

}  // namespace

at::Tensor parameter(const Shape& shape, double scale) { return at::randn(shape, at::kDouble) * scale; }

at::Tensor data(Shape shape, std::int64_t n) {
  shape.insert(shape.begin(), n);
  return at::randn(shape, at::kDouble);
}

at::Tensor labels(std::int64_t classes, std::int64_t n) { return at::arange(n, at::kLong).remainder(classes); }

at::Tensor ids(Shape shape, std::int64_t rows) {
  shape.insert(shape.begin(), k_examples);
  return at::randint(0, rows, shape, at::kLong);
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& classes) {
  return -at::log_softmax(logits, 1).gather(1, classes.unsqueeze(1)).squeeze(1);
}

PyTree Case::tree(at::ScalarType type) const {
  PyTree::List leaves;
  for (const at::Tensor& leaf : params) leaves.emplace_back(leaf.to(type));
  return PyTree(std::move(leaves));
}

Tensors Case::batch_as(at::ScalarType type) const {
  Tensors result;
  for (const at::Tensor& tensor : batch) result.push_back(tensor.is_floating_point() ? tensor.to(type) : tensor);
  return result;
}

LossFn Case::loss_fn() const {
  return [loss = loss](const PyTree& tree, std::span<const at::Tensor> tensors) {
    return loss(tree.leaves(), Tensors(tensors.begin(), tensors.end()));
  };
}

const std::vector<Case>& served() {
  static const std::vector<Case> list = make_served();
  return list;
}

const std::vector<Case>& mixing() {
  static const std::vector<Case> list = make_mixing();
  return list;
}

const std::vector<UnknownCase>& unknown() {
  static const std::vector<UnknownCase> list = make_unknown();
  return list;
}

Case perceptron(std::int64_t n) {
  return {"Perceptron",
          {parameter({33, 20}), parameter({33}), parameter({10, 33}), parameter({10})},
          {data({4, 5}, n), labels(10, n)},
          [](auto& p, auto& b) {
            const auto h = at::relu(at::linear(b[0].flatten(1), p[0], p[1]));
            return cross_entropy(at::linear(h, p[2], p[3]), b[1]);
          }};
}

Case convolutional(std::int64_t n) {
  return {"Convolutional",
          {parameter({16, 1, 5, 5}), parameter({16}), parameter({20, 16, 3, 3}), parameter({20}), parameter({10, 80}),
           parameter({10})},
          {data({1, 14, 14}, n), labels(10, n)},
          [](auto& p, auto& b) {
            auto h = at::max_pool2d(at::tanh(at::conv2d(b[0], p[0], p[1], {1, 1}, at::IntArrayRef{2, 2})), 2, 2);
            h = at::max_pool2d(at::tanh(at::conv2d(h, p[2], p[3])), 2, 2);
            return cross_entropy(at::linear(h.flatten(1), p[4], p[5]), b[1]);
          }};
}

Case sequence(std::int64_t n) {
  return {"Sequence",
          {parameter({12, 6}), parameter({12}), parameter({3, 12}), parameter({3})},
          {data({9, 6}, n), labels(3, n)},
          [](auto& p, auto& b) {
            const auto h = at::tanh(at::linear(b[0], p[0], p[1]));
            return cross_entropy(at::linear(h, p[2], p[3]).mean(1), b[1]);
          }};
}

at::Tensor some_loss(const at::Tensor& output) {
  const at::Tensor flat = output.flatten(1);
  const at::Tensor factors = at::linspace(0.5, 1.5, flat.size(1), flat.options().requires_grad(false));
  return at::tanh(flat).mul(factors).sum(1) + 0.1 * flat.square().sum(1);
}

}  // namespace ripieno::cases
