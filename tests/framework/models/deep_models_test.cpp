#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/models/model.hpp>

// Residual networks and transformers.

namespace ripieno {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Arguments = std::map<std::string, std::string>;

constexpr std::int64_t k_pad = 50, k_vocabulary = 51;

Model image_model(const std::string& name, Arguments args = {}) {
  return make_model(
      {.name = name, .args = std::move(args), .example_shape = {3, 16, 16}, .num_classes = 10, .seed = 1});
}

Model text_model(const std::string& name) {
  return make_model({.name = name,
                     .args = {{"width", "16"}, {"heads", "2"}},
                     .num_classes = 4,
                     .vocab_size = k_vocabulary,
                     .pad_id = k_pad,
                     .seed = 1});
}

at::Tensor images(std::int64_t count) {
  return at::sin(at::arange(count * 3 * 256).to(at::kFloat) * 0.37F).reshape({count, 3, 16, 16});
}

at::Tensor tokens(std::int64_t count, std::int64_t length) {
  return (at::arange(count * length, at::kLong) * 7919 % k_pad).reshape({count, length});
}

at::Tensor outputs(const Model& model, const at::Tensor& x) { return model.forward(model.params, x); }

double difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(ResidualNetworks, HaveTheSizeOfTheirArchitecture) {
  // WRN-16-4 for ten classes of 3-channel images (Zagoruyko and Komodakis, 2016: 2.7 million).
  EXPECT_EQ(image_model("wide-resnet").params.numel(), 2'748'890);
  // Stem, three blocks of two convolutions, two 1x1 convolutions, seven normalisations, the last layer.
  const std::int64_t convolutions = 432 + 2 * 16 * 16 * 9 + 16 * 32 * 9 + 32 * 32 * 9 + 32 * 64 * 9 + 64 * 64 * 9;
  const std::int64_t others = 16 * 32 + 32 * 64 + 2 * (16 + 16 + 16 + 32 + 32 + 64 + 64) + 64 * 10 + 10;
  EXPECT_EQ(image_model("resnet").params.numel(), convolutions + others);
}

TEST(ResidualNetworks, TreatEachExampleByItself) {
  for (const std::string name : {"resnet", "wide-resnet"}) {
    const Model model = image_model(name);
    const at::Tensor x = images(3);
    const at::Tensor together = outputs(model, x);
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_LT(difference(outputs(model, x.narrow(0, i, 1)), together.narrow(0, i, 1)), 1e-5) << name;
    }
  }
}

TEST(ResidualNetworks, StandardiseTheirWeights) {
  const Model model = image_model("resnet"), plain = image_model("resnet", {{"weight-standardisation", "false"}});
  const PyTree moved = model.params.map([](const at::Tensor& leaf) { return leaf.dim() == 4 ? leaf * 3 + 0.5 : leaf; });
  const at::Tensor x = images(2);
  EXPECT_LT(difference(model.forward(moved, x), outputs(model, x)), 1e-3);
  EXPECT_GT(difference(plain.forward(moved, x), outputs(plain, x)), 0.01);
}

TEST(ResidualNetworks, RefuseOtherDepthsAndGroups) {
  const auto refused = [](Arguments args, const char* text) {
    EXPECT_THAT([&] { static_cast<void>(image_model("wide-resnet", args)); },
                ThrowsMessage<UsageError>(HasSubstr(text)));
  };
  refused({{"depth", "18"}}, "6 n + 4");
  refused({{"depth", "x"}}, "whole number");
  refused({{"groups", "3"}}, "divide 16");
  EXPECT_THROW(static_cast<void>(make_model({.name = "resnet", .example_shape = {7, 9}, .num_classes = 2})),
               UsageError);
}

TEST(Transformers, DoNotSeePadding) {
  const at::Tensor text = tokens(4, 9);
  const at::Tensor padded = at::constant_pad_nd(text, {0, 5}, k_pad);
  const Model encoder = text_model("transformer-encoder"), decoder = text_model("transformer-decoder");
  EXPECT_LT(difference(outputs(encoder, text), outputs(encoder, padded)), 1e-6);
  EXPECT_LT(difference(outputs(decoder, text), outputs(decoder, padded).narrow(1, 0, 9)), 1e-5);
}

TEST(Transformers, GiveNumbersForASequenceOfNothing) {
  const at::Tensor nothing = at::full({2, 3}, k_pad, at::kLong);
  EXPECT_TRUE(outputs(text_model("transformer-encoder"), nothing).isfinite().all().item<bool>());
}

TEST(TransformerDecoder, DoesNotSeeWhatComesLater) {
  const Model decoder = text_model("transformer-decoder");
  const at::Tensor text = tokens(3, 8);
  at::Tensor other = text.clone();
  other.narrow(1, 5, 3).fill_(1);
  const at::Tensor before = outputs(decoder, text), after = outputs(decoder, other);
  EXPECT_EQ(before.sizes(), (std::vector<std::int64_t>{3, 8, k_vocabulary}));
  EXPECT_LT(difference(before.narrow(1, 0, 5), after.narrow(1, 0, 5)), 1e-6);
  EXPECT_GT(difference(before.narrow(1, 5, 3), after.narrow(1, 5, 3)), 1e-3);
}

TEST(TransformerEncoder, SeesOrder) {
  const Model encoder = text_model("transformer-encoder");
  const at::Tensor text = tokens(3, 8);
  EXPECT_GT(difference(outputs(encoder, text), outputs(encoder, text.flip(1))), 1e-4);
}

TEST(Transformers, RefuseNumbersAndOddWidths) {
  const auto refused = [](ModelSpec spec, const char* text) {
    EXPECT_THAT([&] { static_cast<void>(make_model(spec)); }, ThrowsMessage<UsageError>(HasSubstr(text)));
  };
  refused({.name = "transformer-encoder", .example_shape = {28, 28}, .num_classes = 2}, "tokens");
  refused({.name = "transformer-encoder", .args = {{"width", "20"}, {"heads", "4"}}, .num_classes = 2, .vocab_size = 9},
          "even multiple");
}

}  // namespace
}  // namespace ripieno
