#include <ripieno/framework/models/model.hpp>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/models/initialise.hpp>
#include <ripieno/framework/models/oriented_gradients.hpp>
#include <string>
#include <vector>

namespace ripieno {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

Model fashion_model(const std::string& name, std::map<std::string, std::string> args = {}, std::uint64_t seed = 1) {
  return make_model(
      {.name = name, .args = std::move(args), .example_shape = {28, 28}, .num_classes = 10, .seed = seed});
}

at::Tensor waves(at::IntArrayRef shape) {
  std::int64_t size = 1;
  for (const std::int64_t side : shape) size *= side;
  return at::sin(at::arange(size).to(at::kFloat) * 0.37F).reshape(shape);
}

template <class Error, class Matcher>
void expect_refusal(const ModelSpec& spec, Matcher matcher) {
  EXPECT_THAT([&spec] { static_cast<void>(make_model(spec)); }, ThrowsMessage<Error>(matcher));
}

TEST(Models, AreListedByName) {
  EXPECT_THAT(model_names(), ElementsAre("linear", "mlp", "resnet", "tanh-cnn", "transformer-decoder",
                                         "transformer-encoder", "wide-resnet"));
  for (const std::string& name : model_names()) EXPECT_THAT(describe_models(), HasSubstr(name));
}

TEST(Models, HaveTheirPublishedSizes) {
  EXPECT_EQ(fashion_model("tanh-cnn").params.numel(), 26'010);
  EXPECT_EQ(fashion_model("mlp").params.numel(), 1'863'690);
  EXPECT_EQ(fashion_model("linear").params.numel(), 7'850);
  EXPECT_EQ(fashion_model("linear", {{"features", "oriented-gradients"}}).params.numel(), 15'220);
}

TEST(Models, TakeImagesWithAndWithoutAChannelDimension) {
  for (const std::string name : {"linear", "mlp", "resnet", "tanh-cnn", "wide-resnet"}) {
    const Model flat = fashion_model(name);
    const Model deep = make_model({.name = name, .example_shape = {1, 28, 28}, .num_classes = 10, .seed = 1});
    const at::Tensor x = waves({5, 28, 28});
    const at::Tensor logits = flat.forward(flat.params, x);
    EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{5, 10})) << name;
    EXPECT_TRUE(at::equal(logits, flat.forward(flat.params, x.unsqueeze(1)))) << name;
    EXPECT_TRUE(at::equal(logits, deep.forward(deep.params, x))) << name;
    EXPECT_EQ(flat.forward(flat.params, x.slice(0, 0, 0)).sizes(), (std::vector<std::int64_t>{0, 10})) << name;
    EXPECT_THROW(static_cast<void>(flat.forward(flat.params, waves({5, 28, 27}))), UsageError) << name;
  }
}

TEST(Models, RefuseUnknownNamesArgumentsAndValuesWithTheNearest) {
  expect_refusal<UsageError>({.name = "tanhcnn", .example_shape = {28, 28}, .num_classes = 10},
                             HasSubstr("'tanh-cnn'"));
  const auto mlp = [](std::map<std::string, std::string> args) {
    return ModelSpec{.name = "mlp", .args = std::move(args), .example_shape = {28, 28}, .num_classes = 10};
  };
  expect_refusal<UsageError>(mlp({{"hiden", "10"}}), HasSubstr("did you mean 'hidden'"));
  expect_refusal<UsageError>(mlp({{"activation", "tahn"}}), HasSubstr("did you mean 'tanh'"));
  for (const char* bad : {"", "0", "-5", "10,", "10,x", "1.5", "99999999999"}) {
    expect_refusal<UsageError>(mlp({{"hidden", bad}}), HasSubstr("whole numbers"));
  }
  expect_refusal<UsageError>(
      {.name = "linear", .args = {{"features", "hog"}}, .example_shape = {28, 28}, .num_classes = 10},
      HasSubstr("oriented-gradients"));
  expect_refusal<UsageError>(
      {.name = "tanh-cnn", .args = {{"hidden", "5"}}, .example_shape = {28, 28}, .num_classes = 10},
      HasSubstr("it takes none"));
}

TEST(Models, RefuseExamplesTheyCannotTake) {
  expect_refusal<UsageError>({.name = "linear", .example_shape = {28, 28}, .num_classes = 1}, HasSubstr("classes"));
  expect_refusal<UsageError>({.name = "linear", .example_shape = {}, .num_classes = 10}, HasSubstr("shape []"));
  expect_refusal<UsageError>({.name = "mlp", .example_shape = {28, 0}, .num_classes = 10}, HasSubstr("[28, 0]"));
  expect_refusal<UsageError>({.name = "tanh-cnn", .example_shape = {784}, .num_classes = 10}, HasSubstr("[784]"));
  expect_refusal<UsageError>({.name = "tanh-cnn", .example_shape = {15, 28}, .num_classes = 10}, HasSubstr("16x16"));
  expect_refusal<UsageError>(
      {.name = "linear", .args = {{"features", "oriented-gradients"}}, .example_shape = {3, 28, 28}, .num_classes = 10},
      HasSubstr("3 channels"));
  EXPECT_NO_THROW(static_cast<void>(make_model({.name = "tanh-cnn", .example_shape = {16, 16}, .num_classes = 10})));
}

TEST(Initialisation, IsAFunctionOfTheSeedAndTheNameOfTheParameter) {
  const PyTree first = fashion_model("mlp").params;
  const PyTree again = fashion_model("mlp", {{"hidden", "1024"}}).params;
  EXPECT_TRUE(at::equal(first["layers"][0UL]["weight"], again["layers"][0UL]["weight"]));
  const PyTree other = fashion_model("mlp", {}, 2).params;
  EXPECT_FALSE(at::equal(first["layers"][0UL]["weight"], other["layers"][0UL]["weight"]));
}

TEST(Initialisation, HasTheVarianceOfPyTorchsDefault) {
  const PyTree params = fashion_model("mlp").params;
  for (const auto& [layer, fan_in] : {std::pair<std::size_t, double>{0, 784}, {1, 1024}}) {
    const at::Tensor weight = params["layers"][layer]["weight"].tensor().to(at::kDouble);
    // 800 000 values or more: the standard error of the ratio is below 0.0016.
    EXPECT_NEAR(weight.square().mean().item<double>() * 3 * fan_in, 1.0, 0.01);
  }
}

// Another stream or encoding would make runs of the same seed start elsewhere.
TEST(Initialisation, KeepsItsBits) {
  const at::Tensor weight = models::initial_values(1, "conv1.weight", {16, 1, 8, 8}, 64).flatten();
  EXPECT_EQ(weight[0].item<float>(), -0x1.492286p-8F);
  EXPECT_EQ(weight[1].item<float>(), -0x1.162c54p-4F);
  EXPECT_EQ(weight[2].item<float>(), -0x1.3909e8p-4F);
}

TEST(LinearModel, IsAProductAndABias) {
  const Model model = make_model({.name = "linear", .example_shape = {3}, .num_classes = 2});
  EXPECT_EQ(model.params.leaves()[1].abs().max().item<float>(), 0.0F);
  const PyTree params{{"weight", at::tensor({1.0F, 2.0F, 3.0F, -1.0F, 0.5F, 4.0F}).reshape({2, 3})},
                      {"bias", at::tensor({10.0F, 20.0F})}};
  const at::Tensor logits = model.forward(params, at::tensor({1.0F, 2.0F, -1.0F}).reshape({1, 3}));
  EXPECT_TRUE(at::equal(logits, at::tensor({12.0F, 16.0F}).reshape({1, 2})));
}

TEST(LinearModel, ObeysItsArguments) {
  EXPECT_THAT(fashion_model("linear", {{"bias", "false"}}).params.paths(), ElementsAre("weight"));
  EXPECT_GT(fashion_model("linear", {{"init", "random"}}).params["weight"].tensor().abs().max().item<float>(), 0.0F);
  EXPECT_FALSE(fashion_model("linear").feature_map);
}

TEST(LinearModel, ReadsOrientedGradients) {
  const Model model = fashion_model("linear", {{"features", "oriented-gradients"}, {"init", "random"}});
  const at::Tensor x = waves({4, 28, 28});
  const at::Tensor features = model.feature_map(x);
  EXPECT_TRUE(at::equal(features, oriented_gradients(x)));
  const at::Tensor expected = at::linear(features, model.params["weight"], model.params["bias"]);
  EXPECT_TRUE(at::equal(model.forward(model.params, features), expected));
}

// Matrix products spelt out in double.
at::Tensor dense(const PyTree& layer, const at::Tensor& x) {
  const at::Tensor weight = layer["weight"].tensor().to(at::kDouble);
  return (x.unsqueeze(1) * weight.unsqueeze(0)).sum(2) + layer["bias"].tensor().to(at::kDouble);
}

TEST(MlpModel, StacksLayersWithItsActivation) {
  const at::Tensor x = waves({3, 28, 28});
  for (const std::string activation : {"relu", "tanh"}) {
    const Model model = fashion_model("mlp", {{"hidden", "12,7"}, {"activation", activation}});
    at::Tensor values = x.to(at::kDouble).flatten(1);
    for (std::size_t layer = 0; layer < 3; ++layer) {
      if (layer > 0) values = activation == "relu" ? at::clamp_min(values, 0) : at::tanh(values);
      values = dense(model.params["layers"][layer], values);
    }
    EXPECT_TRUE(at::allclose(model.forward(model.params, x).to(at::kDouble), values, 0, 1e-5)) << activation;
  }
}

// Convolution, tanh and pooling of one image by their definitions, in double.
using Image = std::vector<std::vector<std::vector<double>>>;  // [channel][row][column]

Image convolve(const Image& image, const PyTree& layer, int stride, int padding) {
  const at::Tensor weight = layer["weight"].tensor().to(at::kDouble).contiguous();
  const double* taps = weight.const_data_ptr<double>();
  const int kernel = static_cast<int>(weight.size(2));
  const int side = (static_cast<int>(image[0].size()) + 2 * padding - kernel) / stride + 1;
  Image out(static_cast<std::size_t>(weight.size(0)));
  for (std::size_t filter = 0; filter < out.size(); ++filter) {
    const double bias = layer["bias"].tensor()[static_cast<std::int64_t>(filter)].item<double>();
    out[filter].assign(static_cast<std::size_t>(side), std::vector<double>(static_cast<std::size_t>(side), bias));
  }
  const auto at_pixel = [&image](std::size_t channel, int row, int column) {
    const int size = static_cast<int>(image[0].size());
    const bool inside = row >= 0 && row < size && column >= 0 && column < size;
    return inside ? image[channel][static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] : 0.0;
  };
  for (std::size_t filter = 0; filter < out.size(); ++filter) {
    for (std::size_t channel = 0; channel < image.size(); ++channel) {
      for (int tap = 0; tap < kernel * kernel; ++tap) {
        const double value = *taps++;
        for (int row = 0; row < side; ++row) {
          for (int column = 0; column < side; ++column) {
            out[filter][static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] +=
                value *
                at_pixel(channel, row * stride - padding + tap / kernel, column * stride - padding + tap % kernel);
          }
        }
      }
    }
  }
  return out;
}

Image tanh_and_pool(const Image& image) {
  Image out(image.size());
  for (std::size_t channel = 0; channel < image.size(); ++channel) {
    const auto& rows = image[channel];
    for (std::size_t row = 0; row + 1 < rows.size(); ++row) {
      auto& out_row = out[channel].emplace_back();
      for (std::size_t column = 0; column + 1 < rows.size(); ++column) {
        out_row.push_back(std::tanh(
            std::max({rows[row][column], rows[row][column + 1], rows[row + 1][column], rows[row + 1][column + 1]})));
      }
    }
  }
  return out;
}

TEST(TanhCnnModel, IsTheNetworkOfItsDefinition) {
  const Model model = fashion_model("tanh-cnn");
  const at::Tensor x = waves({1, 28, 28});
  Image image(1, std::vector<std::vector<double>>(28, std::vector<double>(28)));
  for (std::size_t pixel = 0; pixel < 784; ++pixel) image[0][pixel / 28][pixel % 28] = x.const_data_ptr<float>()[pixel];

  image = tanh_and_pool(convolve(image, model.params["conv1"], 2, 2));
  image = tanh_and_pool(convolve(image, model.params["conv2"], 2, 0));
  std::vector<double> flattened;
  for (const auto& channel : image) {
    for (const auto& row : channel) flattened.insert(flattened.end(), row.begin(), row.end());
  }
  ASSERT_EQ(flattened.size(), 512U);
  const at::Tensor hidden = at::tanh(dense(model.params["linear1"], at::tensor(flattened, at::kDouble).unsqueeze(0)));
  const at::Tensor expected = dense(model.params["linear2"], hidden);
  EXPECT_TRUE(at::allclose(model.forward(model.params, x).to(at::kDouble), expected, 0, 1e-6));
}

TEST(TanhCnnModel, StartsWithOrthogonalFiltersOfNormTwo) {
  const at::Tensor gray = fashion_model("tanh-cnn").params["conv1"]["weight"].tensor().flatten(1);
  EXPECT_TRUE(at::allclose(gray.mm(gray.t()), 4 * at::eye(16), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(gray.sum(1), at::zeros({16}), 0, 1e-5)) << "brightness alone shows in a filter";
  const Model model = make_model({.name = "tanh-cnn", .example_shape = {3, 32, 32}, .num_classes = 10});
  const at::Tensor colour = model.params["conv1"]["weight"].tensor().flatten(1);
  EXPECT_TRUE(at::allclose(colour.mm(colour.t()), 4 * at::eye(16), 1e-5, 1e-5));
}

TEST(TanhCnnModel, FollowsTheChannelsAndSizeOfTheImages) {
  const Model model = make_model({.name = "tanh-cnn", .example_shape = {3, 32, 30}, .num_classes = 7});
  EXPECT_EQ(model.forward(model.params, waves({2, 3, 32, 30})).sizes(), (std::vector<std::int64_t>{2, 7}));
}

TEST(SoftmaxCrossEntropy, IsTheNegativeLogProbabilityOfEachLabel) {
  const at::Tensor logits = at::tensor({1.0, 2.0, 3.0, 500.0, 0.0, -500.0}, at::kDouble).reshape({2, 3});
  const at::Tensor losses = softmax_cross_entropy(logits, at::tensor({0, 2}, at::kLong));
  EXPECT_NEAR(losses[0].item<double>(), 2 + std::log(1 + std::exp(-1.0) + std::exp(-2.0)), 1e-14);
  EXPECT_NEAR(losses[1].item<double>(), 1000.0, 1e-12);
  EXPECT_EQ(softmax_cross_entropy(logits.slice(0, 0, 0), at::zeros({0}, at::kLong)).numel(), 0);
}

TEST(SoftmaxCrossEntropy, Invariant_P1_DoesNotQuoteALabelThatIsNoClass) {
  for (const std::int64_t bad : {3, -77}) {
    EXPECT_THAT(
        [bad] {
          static_cast<void>(softmax_cross_entropy(at::zeros({2, 3}), at::full({2}, bad, at::kLong)));
        },
        ThrowsMessage<DataError>(AllOf(HasSubstr("3 classes"), Not(HasSubstr("77")))));
  }
}

TEST(SoftmaxCrossEntropy, RefusesOtherShapesAndTypes) {
  EXPECT_THROW(static_cast<void>(softmax_cross_entropy(at::zeros({2, 3}), at::zeros({3}, at::kLong))), UsageError);
  EXPECT_THROW(static_cast<void>(softmax_cross_entropy(at::zeros({2, 3}), at::zeros({2}, at::kInt))), UsageError);
  EXPECT_THROW(static_cast<void>(softmax_cross_entropy(at::zeros({3}), at::zeros({3}, at::kLong))), UsageError);
}

}  // namespace
}  // namespace ripieno
