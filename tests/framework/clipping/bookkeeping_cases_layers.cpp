#include "bookkeeping_cases.hpp"

/// Losses over tables, normalisations, heads and attention.
namespace ripieno::cases {

void add_embeddings(std::vector<Case>& list) {
  list.push_back({"Embedding", {parameter({9, 4}), parameter({3, 4})}, {ids({7}, 9)}, [](auto& p, auto& b) {
                    return some_loss(at::linear(at::embedding(p[0], b[0]), p[1]));
                  }});
  list.push_back({"EmbeddingPadding", {parameter({5, 4})}, {ids({7}, 5)}, [](auto& p, auto& b) {
                    return some_loss(at::embedding(p[0], b[0], /*padding_idx=*/2));
                  }});
  list.push_back({"EmbeddingPaddingFirst", {parameter({5, 4})}, {ids({7}, 5)}, [](auto& p, auto& b) {
                    return some_loss(at::embedding(p[0], b[0], /*padding_idx=*/0));
                  }});
  list.push_back({"EmbeddingOneId", {parameter({9, 4})}, {ids({}, 9)}, [](auto& p, auto& b) {
                    return some_loss(at::embedding(p[0], b[0]));
                  }});
  list.push_back({"EmbeddingRepeatedIds", {parameter({3, 17})}, {ids({11}, 3)}, [](auto& p, auto& b) {
                    return some_loss(at::tanh(at::embedding(p[0], b[0])));
                  }});
  // Made-up ids are 0 and 1, or 0 where the loss does not take 1.
  list.push_back({"EmbeddingOfTwoRows", {parameter({2, 4})}, {ids({7}, 2)}, [](auto& p, auto& b) {
                    return some_loss(at::embedding(p[0], b[0]));
                  }});
  list.push_back({"EmbeddingOfOneRow", {parameter({1, 4})}, {ids({7}, 1)}, [](auto& p, auto& b) {
                    return some_loss(at::embedding(p[0], b[0]));
                  }});
  list.push_back({"EmbeddingIdGrid", {parameter({9, 4})}, {ids({2, 3}, 9)}, [](auto& p, auto& b) {
                    return some_loss(at::embedding(p[0], b[0]));
                  }});
  list.push_back({"EmbeddingTimeFirst", {parameter({9, 4})}, {ids({7}, 9)}, [](auto& p, auto& b) {
                    return some_loss(at::embedding(p[0], b[0].t()).transpose(0, 1));
                  }});
  list.push_back({"EmbeddingNarrowIds", {parameter({9, 4})}, {ids({7}, 9).to(at::kInt)}, [](auto& p, auto& b) {
                    return some_loss(at::embedding(p[0], b[0]));
                  }});
  list.push_back({"EmbeddingOfTranspose", {parameter({4, 9})}, {ids({7}, 9)}, [](auto& p, auto& b) {
                    return some_loss(at::embedding(p[0].t(), b[0]));
                  }});
  list.push_back({"EmbeddingUsedTwice", {parameter({9, 4})}, {ids({7}, 9), ids({3}, 9)}, [](auto& p, auto& b) {
                    return some_loss(at::embedding(p[0], b[0])) + some_loss(at::embedding(p[0], b[1], 4));
                  }});
  list.push_back({"IndexSelect", {parameter({9, 4})}, {ids({7}, 9)}, [](auto& p, auto& b) {
                    return some_loss(p[0].index_select(0, b[0].flatten()).view({b[0].size(0), 7, 4}));
                  }});
  list.push_back({"IndexSelectOfScalars", {parameter({9})}, {ids({}, 9)}, [](auto& p, auto& b) {
                    return some_loss(p[0].index_select(0, b[0]).unsqueeze(1));
                  }});
  list.push_back({"IndexedFromTheEnd", {parameter({9, 4})}, {ids({7}, 9) - 9}, [](auto& p, auto& b) {
                    return some_loss(p[0].index({b[0]}));
                  }});
  list.push_back({"IndexedMatrices", {parameter({9, 2, 3})}, {ids({7}, 9)}, [](auto& p, auto& b) {
                    return some_loss(p[0].index({b[0]}));
                  }});
  list.push_back({"EmbeddingTiedWithOutput", {parameter({9, 4})}, {ids({7}, 9)}, [](auto& p, auto& b) {
                    return some_loss(at::linear(at::tanh(at::embedding(p[0], b[0])), p[0]));
                  }});
  list.push_back({"OneIdTiedWithOutput", {parameter({9, 4})}, {ids({}, 9)}, [](auto& p, auto& b) {
                    return some_loss(at::linear(at::tanh(at::embedding(p[0], b[0])), p[0]));
                  }});
}

void add_normalisations(std::vector<Case>& list) {
  const auto add = [&](const char* name, Tensors params, const std::vector<std::int64_t>& input, LeafLoss loss) {
    list.push_back({name, std::move(params), {data(input)}, std::move(loss)});
  };
  add("LayerNorm", {parameter({4}), parameter({4}), parameter({4, 4})}, {7, 4},
      [](auto& p, auto& b) { return some_loss(at::linear(at::layer_norm(b[0], {4}, p[0], p[1]), p[2])); });
  add("LayerNormOverTwoDimensions", {parameter({7, 5}), parameter({7, 5})}, {3, 7, 5}, [](auto& p, auto& b) {
    return some_loss(at::layer_norm(b[0], {7, 5}, p[0], p[1]));
  });
  add("LayerNormNoBias", {parameter({19})}, {7, 19},
      [](auto& p, auto& b) { return some_loss(at::layer_norm(b[0], {19}, p[0])); });
  add("LayerNormOneRow", {parameter({5}), parameter({5})}, {5},
      [](auto& p, auto& b) { return some_loss(at::layer_norm(b[0], {5}, p[0], p[1])); });
  add("LayerNormTimeFirst", {parameter({4}), parameter({4})}, {7, 4}, [](auto& p, auto& b) {
    const auto time_first = b[0].transpose(0, 1).contiguous();
    return some_loss(at::layer_norm(time_first, {4}, p[0], p[1]).transpose(0, 1));
  });
  add("LayerNormTwiceTheSame", {parameter({4}), parameter({4})}, {7, 4}, [](auto& p, auto& b) {
    return some_loss(at::layer_norm(at::sin(at::layer_norm(b[0], {4}, p[0], p[1])), {4}, p[0], p[1]));
  });
  add("GroupNorm", {parameter({4}), parameter({4}), parameter({4, 4, 3, 3})}, {4, 6, 6},
      [](auto& p, auto& b) { return some_loss(at::group_norm(at::conv2d(b[0], p[2], {}, 1, 1), 2, p[0], p[1])); });
  add("GroupNormOneGroup", {parameter({6}), parameter({6})}, {6, 5},
      [](auto& p, auto& b) { return some_loss(at::group_norm(b[0], 1, p[0], p[1])); });
  add("GroupNormFrames", {parameter({6}), parameter({6})}, {2, 6, 7, 5}, [](auto& p, auto& b) {
    return some_loss(at::group_norm(b[0].flatten(0, 1), 3, p[0], p[1]).unflatten(0, {b[0].size(0), 2}));
  });
  add("GroupNormChannelsLastNoBias", {parameter({6})}, {6, 5, 5}, [](auto& p, auto& b) {
    return some_loss(at::group_norm(b[0].contiguous(at::MemoryFormat::ChannelsLast), 6, p[0]));
  });
  add("InstanceNorm", {parameter({4}), parameter({4})}, {4, 6, 6},
      [](auto& p, auto& b) { return some_loss(at::instance_norm(b[0], p[0], p[1], {}, {}, true, 0.1, 1e-5, false)); });
  add("RepeatedTable", {parameter({2, 4})}, {6, 4}, [](auto& p, auto& b) {
    return some_loss(at::tanh(b[0] + p[0].repeat({b[0].size(0), 3, 1})));
  });
  add("RootMeanSquareNorm", {parameter({4})}, {7, 4},
      [](auto& p, auto& b) { return some_loss(at::rms_norm(b[0], {4}, p[0])); });
  add("RootMeanSquareNormWrittenOut", {parameter({4})}, {7, 4},
      [](auto& p, auto& b) { return some_loss(b[0] * at::rsqrt(b[0].square().mean(-1, true) + 1e-6) * p[0]); });
}

void add_batched_products(std::vector<Case>& list) {
  // [n, heads, steps, d] as heads x (examples and steps) x d, and back.
  const auto rows = [](const at::Tensor& x) { return x.transpose(0, 1).flatten(1, 2); };
  const auto back = [](const at::Tensor& y, std::int64_t n) { return y.unflatten(1, {n, -1}).transpose(0, 1); };
  list.push_back({"HeadsOneStep", {parameter({3, 4, 5})}, {data({3, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::bmm(b[0].transpose(0, 1), p[0]).transpose(0, 1));
                  }});
  list.push_back({"Heads", {parameter({3, 4, 5})}, {data({3, 7, 4})}, [=](auto& p, auto& b) {
                    return some_loss(back(at::bmm(rows(b[0]), p[0]), b[0].size(0)));
                  }});
  list.push_back(
      {"HeadsWithBias", {parameter({3, 4, 5}), parameter({3, 1, 5})}, {data({3, 7, 4})}, [=](auto& p, auto& b) {
         return some_loss(back(at::baddbmm(p[1], rows(b[0]), p[0], 0.5, 2.0), b[0].size(0)));
       }});
  list.push_back({"HeadsFromTheLeft", {parameter({3, 5, 4})}, {data({3, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::bmm(p[0], b[0].permute({1, 2, 0})).permute({2, 0, 1}));
                  }});
  list.push_back({"HeadsUsedTwice", {parameter({3, 4, 4})}, {data({3, 4})}, [](auto& p, auto& b) {
                    const auto h = at::tanh(at::bmm(b[0].transpose(0, 1), p[0]));
                    return some_loss(at::bmm(h, p[0]).transpose(0, 1));
                  }});
  list.push_back({"HeadsExpanded", {parameter({3, 4, 5})}, {data({3, 7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::matmul(b[0], p[0]));
                  }});
  list.push_back({"EinsumMatrix", {parameter({4, 5})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::einsum("btd,de->bte", {b[0], p[0]}));
                  }});
  list.push_back({"EinsumHeads", {parameter({3, 4, 5})}, {data({3, 7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::einsum("bhtd,hde->bhte", {b[0], p[0]}));
                  }});
  list.push_back({"EinsumToHeads", {parameter({3, 4, 5})}, {data({4})}, [](auto& p, auto& b) {
                    return some_loss(at::einsum("bd,hde->bhe", {b[0], p[0]}));
                  }});
  list.push_back({"MatmulLeft3d", {parameter({5, 7})}, {data({7, 4})}, [](auto& p, auto& b) {
                    return some_loss(at::matmul(p[0], b[0]));
                  }});
}

void add_attention(std::vector<Case>& list) {
  const Tensors square{parameter({4, 4}), parameter({4, 4}), parameter({4, 4}), parameter({4, 4})};
  list.push_back(
      {"Attention",
       {parameter({12, 4}), parameter({12}), parameter({4, 4}), parameter({4})},
       {data({7, 4})},
       [](auto& p, auto& b) {
         const auto n = b[0].size(0);
         const auto q = at::linear(b[0], p[0], p[1]).view({n, 7, 3, 2, 2}).permute({2, 0, 3, 1, 4}).unbind(0);
         const auto mixed = at::scaled_dot_product_attention(q[0], q[1], q[2]).transpose(1, 2).reshape({n, 7, 4});
         return some_loss(at::linear(mixed, p[2], p[3]));
       }});
  list.push_back({"AttentionWrittenOut", square, {data({7, 4})}, [](auto& p, auto& b) {
                    const auto n = b[0].size(0);
                    const auto head = [&](const at::Tensor& w) {
                      return at::matmul(b[0], w).view({n, 7, 2, 2}).transpose(1, 2);
                    };
                    const auto a = at::softmax(at::matmul(head(p[0]), head(p[1]).transpose(-1, -2)) / 1.4, -1);
                    return some_loss(at::matmul(at::matmul(a, head(p[2])).transpose(1, 2).reshape({n, 7, 4}), p[3]));
                  }});
  list.push_back({"AttentionTimeFirst", square, {data({7, 4})}, [](auto& p, auto& b) {
                    const auto n = b[0].size(0);
                    const auto x = b[0].transpose(0, 1).contiguous();
                    const auto head = [&](const at::Tensor& w) {
                      return at::linear(x, w).view({7, n * 2, 2}).transpose(0, 1);
                    };
                    const auto a = at::softmax(at::bmm(head(p[0]), head(p[1]).transpose(-1, -2)) / 1.4, -1);
                    const auto mixed = at::bmm(a, head(p[2])).transpose(0, 1).reshape({7, n, 4});
                    return some_loss(at::linear(mixed, p[3]).transpose(0, 1));
                  }});
  list.push_back(
      {"AttentionWithLearnedQuery", {parameter({2, 3, 2}), parameter({4, 4})}, {data({7, 4})}, [](auto& p, auto& b) {
         const auto n = b[0].size(0);
         const auto k = at::linear(b[0], p[1]).view({n, 7, 2, 2}).transpose(1, 2);
         const auto query = p[0].unsqueeze(0).expand({n, 2, 3, 2});
         return some_loss(at::scaled_dot_product_attention(query, k, k));
       }});
  list.push_back({"TransformerBlock",
                  {parameter({9, 8}), parameter({7, 8}), at::ones({8}, at::kDouble), parameter({8}), parameter({24, 8}),
                   parameter({24}), parameter({8, 8}), parameter({8}), parameter({16, 8}), parameter({8, 16})},
                  {ids({7}, 9), labels(9)},
                  [](auto& p, auto& b) {
                    const auto n = b[0].size(0);
                    auto x = at::embedding(p[0], b[0]) + p[1];
                    const auto q = at::linear(at::layer_norm(x, {8}, p[2], p[3]), p[4], p[5])
                                       .view({n, 7, 3, 2, 4})
                                       .permute({2, 0, 3, 1, 4})
                                       .unbind(0);
                    const auto mixed = at::scaled_dot_product_attention(q[0], q[1], q[2], {}, 0, /*is_causal=*/true);
                    x = x + at::linear(mixed.transpose(1, 2).reshape({n, 7, 8}), p[6], p[7]);
                    x = x + at::linear(at::gelu(at::linear(x, p[8])), p[9]);
                    return cross_entropy(at::linear(x.mean(1), p[0]), b[1]);
                  }});
}

Case mixed_layers(std::int64_t n) {
  return {"MixedLayers",
          {parameter({9, 8}), at::ones({8}, at::kDouble), parameter({8}), parameter({24, 8}), parameter({24, 2}),
           parameter({2, 8}), at::ones({7}, at::kDouble), parameter({7}), parameter({8, 8}), parameter({2, 4, 4})},
          {data({7, 8}, n), labels(9, n)},
          [](auto& p, auto& b) {
            const auto count = b[0].size(0);
            const auto tokens = (b[1].unsqueeze(1) + at::arange(7)).remainder(5);
            auto x = b[0] + at::embedding(p[0], tokens);
            const auto q = at::linear(at::layer_norm(x, {8}, p[1], p[2]), p[3] + at::mm(p[4], p[5]))
                               .view({count, 7, 3, 2, 4})
                               .permute({2, 0, 3, 1, 4})
                               .unbind(0);
            x = x + at::scaled_dot_product_attention(q[0], q[1], q[2]).transpose(1, 2).reshape({count, 7, 8});
            x = at::group_norm(x, 7, p[6], p[7]);
            auto h = x.select(1, 0);
            for (int t = 1; t < 4; ++t) h = at::tanh(at::linear(h, p[8]) + x.select(1, t));
            h = at::bmm(h.view({count, 2, 4}).transpose(0, 1), p[9]).transpose(0, 1).reshape({count, 8});
            return cross_entropy(at::linear(h, p[0]), b[1]);
          }};
}

}  // namespace ripieno::cases
