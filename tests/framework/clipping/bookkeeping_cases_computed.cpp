#include "bookkeeping_cases.hpp"

/// Losses over parameters that are computed from others or used step after step.
namespace ripieno::cases {

void add_computed_parameters(std::vector<Case>& list) {
  list.push_back({"TanhOfWeight", {parameter({5, 4})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], at::tanh(p[0])));
                  }});
  list.push_back({"WeightNorm", {parameter({5, 4}), parameter({5, 1})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], at::_weight_norm(p[0], p[1], 0)));
                  }});
  list.push_back(
      {"WeightNormFused", {parameter({5, 4, 3}), parameter({5, 1, 1})}, {data({4, 9})}, [](auto& p, auto& b) {
         return some_loss(at::conv1d(b[0], std::get<0>(at::_weight_norm_interface(p[0], p[1], 0))));
       }});
  list.push_back({"SumOfWeights", {parameter({5, 4}), parameter({5, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0] + p[1] * 0.5));
                  }});
  list.push_back(
      {"LowRankUpdate", {parameter({5, 4}), parameter({5, 2}), parameter({2, 4})}, {data({4})}, [](auto& p, auto& b) {
         return some_loss(at::linear(b[0], p[0] + at::mm(p[1], p[2])));
       }});
  list.push_back({"LowRankUpdateBeside",
                  {parameter({5, 4}), parameter({5, 2}), parameter({2, 4})},
                  {data({7, 4})},
                  [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0].detach()) + at::linear(at::linear(b[0], p[2]), p[1]));
                  }});
  list.push_back({"ChunkedWeight", {parameter({12, 4}), parameter({12})}, {data({4})}, [](auto& p, auto& b) {
                    const auto w = p[0].chunk(3, 0), c = p[1].chunk(3, 0);
                    return some_loss(at::linear(b[0], w[0], c[0]) * at::linear(b[0], w[1], c[1]) +
                                     at::linear(b[0], w[2]));
                  }});
  list.push_back({"OverlappingSlices", {parameter({8, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0].slice(0, 0, 5)) * at::linear(b[0], p[0].slice(0, 3, 8)));
                  }});
  list.push_back({"WholeAndSlice", {parameter({6, 4})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0])) + some_loss(b[0] * p[0].select(0, 2));
                  }});
  list.push_back({"MaskedWeight", {parameter({5, 4})}, {data({4})}, [](auto& p, auto& b) {
                    const auto mask = at::ones({5, 4}, p[0].options().requires_grad(false)).tril();
                    return some_loss(at::linear(b[0], p[0] * mask));
                  }});
  list.push_back({"SpectralScale", {parameter({5, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0] / p[0].norm()));
                  }});
  list.push_back({"KernelFromFactors", {parameter({6, 4}), parameter({3, 3})}, {data({4, 6, 6})}, [](auto& p, auto& b) {
                    const auto kernel = p[0].unsqueeze(2).unsqueeze(3) * p[1];
                    return some_loss(at::conv2d(b[0], kernel));
                  }});
  list.push_back({"PositionTableLookedUp", {parameter({20, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::tanh(b[0] + at::embedding(p[0], at::arange(7))));
                  }});
  list.push_back({"PositionTableSelected", {parameter({20, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::tanh(b[0] + p[0].index_select(0, at::arange(7))));
                  }});
  list.push_back(
      {"RelativePositionBias", {parameter({13, 2}), parameter({4, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
         const auto steps = at::arange(7);
         const auto distance = steps.unsqueeze(0) - steps.unsqueeze(1) + 6;
         const auto bias = p[0].index({distance}).permute({2, 0, 1}).unsqueeze(0);
         const auto q = at::linear(b[0], p[1]).view({b[0].size(0), 7, 2, 2}).transpose(1, 2);
         return some_loss(at::matmul(at::softmax(at::matmul(q, q.transpose(-1, -2)) + bias, -1), q));
       }});
  list.push_back({"PenaltyInTheLoss", {parameter({5, 4})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(b[0], p[0])) + 0.1 * p[0].square().sum();
                  }});
  list.push_back({"WeightSharedWithItsSquare", {parameter({4, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::linear(at::tanh(at::linear(b[0], p[0])), at::mm(p[0], p[0]).t()));
                  }});
}

void add_recurrent(std::vector<Case>& list) {
  const auto zeros = [](const at::Tensor& x) { return at::zeros({x.size(0), 3}, x.options()); };
  list.push_back({"RecurrentUnrolled",
                  {parameter({3, 4}), parameter({3, 3}), parameter({3})},
                  {data({5, 4})},
                  [=](auto& p, auto& b) {
                    auto h = zeros(b[0]);
                    for (int t = 0; t < 5; ++t)
                      h = at::tanh(at::linear(b[0].select(1, t), p[0], p[2]) + at::linear(h, p[1]));
                    return some_loss(h);
                  }});
  const Tensors gru{parameter({9, 4}), parameter({9, 3}), parameter({9}), parameter({9})};
  list.push_back({"Gru", gru, {data({5, 4})}, [](auto& p, auto& b) {
                    const auto h = at::zeros({1, b[0].size(0), 3}, b[0].options());
                    return some_loss(std::get<0>(at::gru(b[0], h, {p[0], p[1], p[2], p[3]}, /*has_biases=*/true, 1, 0.0,
                                                         /*train=*/true, false, /*batch_first=*/true)));
                  }});
  list.push_back({"GruCells", gru, {data({5, 4})}, [=](auto& p, auto& b) {
                    auto h = zeros(b[0]);
                    for (int t = 0; t < 5; ++t) h = at::gru_cell(b[0].select(1, t), h, p[0], p[1], p[2], p[3]);
                    return some_loss(h);
                  }});
  list.push_back({"LstmCells",
                  {parameter({12, 4}), parameter({12, 3}), parameter({12}), parameter({12})},
                  {data({5, 4})},
                  [=](auto& p, auto& b) {
                    auto h = zeros(b[0]), c = h;
                    for (int t = 0; t < 5; ++t)
                      std::tie(h, c) = at::lstm_cell(b[0].select(1, t), {h, c}, p[0], p[1], p[2], p[3]);
                    return some_loss(h);
                  }});
}

}  // namespace ripieno::cases
