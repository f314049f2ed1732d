#include "train_fixture.hpp"

namespace ripieno::test {
namespace {

using ::testing::HasSubstr;

/// A model that tests/torchscript/make_models.py wrote, and data of its kind.
struct PythonModel {
  std::string name;
  std::vector<std::int64_t> example_shape;
  io::DType dtype;
  std::string frozen_prefix;  ///< of parameters to leave as they are; "-" for none
};

const std::vector<PythonModel> k_models = {{"convolutional", {1, 16, 16}, io::DType::f32, "0."},
                                           {"resnet", {3, 8, 8}, io::DType::f32, "blocks.0."},
                                           {"encoder", {9}, io::DType::i64, "words."},
                                           {"recurrent", {7, 5}, io::DType::f32, "-"},
                                           {"tied", {8}, io::DType::f32, "norm."}};

class ScriptTrainTest : public TrainTest {
 protected:
  void SetUp() override {
    if (!fs::exists(file("tied"))) GTEST_SKIP() << "Python could not import torch";
  }

  [[nodiscard]] static std::string file(const std::string& name) {
    return std::string(RIPIENO_TORCHSCRIPT_MODELS "/") + name + ".pt";
  }

  [[nodiscard]] std::string dataset_for(const PythonModel& model) const {
    constexpr std::int64_t k_examples = 60, k_words = 20;
    std::int64_t numel = k_examples;
    for (const std::int64_t size : model.example_shape) numel *= size;
    std::mt19937 engine(3);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(numel));
    std::vector<std::int64_t> tokens(values.size()), labels(k_examples);
    for (float& value : values) value = normal(engine);
    for (std::int64_t& token : tokens) token = static_cast<std::int64_t>(engine() % k_words);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 3);
    io::DatasetSpec spec;
    spec.dtype = model.dtype;
    spec.example_shape = model.example_shape;
    spec.num_classes = 3;
    const bool ids = model.dtype == io::DType::i64;
    return io::write_dataset(folder_ / ("data-" + model.name), spec,
                             ids ? std::as_bytes(std::span(tokens)) : std::as_bytes(std::span(values)), labels)
        .string();
  }

  /// Texts of lengths 1 to 60 over 19 words, padded with the twentieth.
  [[nodiscard]] std::string texts(const std::string& name, bool labels) const {
    constexpr std::int64_t k_examples = 60;
    std::mt19937 engine(3);
    std::vector<std::int64_t> lengths(k_examples), classes(k_examples);
    std::vector<std::uint8_t> tokens;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = 1 + static_cast<std::int64_t>(engine() % 60);
      classes[i] = static_cast<std::int64_t>(i % 3);
      for (std::int64_t place = 0; place < lengths[i]; ++place)
        tokens.push_back(static_cast<std::uint8_t>(engine() % 19));
    }
    io::DatasetSpec spec;
    spec.sequences = true;
    spec.vocab_size = 20;
    spec.pad_id = 19;
    spec.num_examples = k_examples;
    spec.labels = labels;
    if (labels) spec.num_classes = 3;
    io::DatasetWriter writer(folder_ / name, spec);
    io::Examples rows{.count = k_examples, .x = std::as_bytes(std::span(tokens)), .lengths = lengths};
    if (labels) rows.y = std::as_bytes(std::span(classes));
    writer.append(rows);
    return writer.finish().string();
  }

  /// A command that trains `model`; OUT has its name.
  [[nodiscard]] std::string command(const std::string& model, const std::string& data,
                                    const std::string& more = "") const {
    return train() + "--model " + file(model) + " --data " + data +
           " --expected-batch 20 --steps 10 --noise-multiplier 1 --delta 1e-3 --clipping-norm 1 --lr 0.1 --out " +
           out(model) + " " + more;
  }
};

TEST_F(ScriptTrainTest, FiveModelsFromPythonTrainOnTwoRanksAndLoadBackThere) {
  std::string checks;
  for (const PythonModel& model : k_models) {
    const std::string freeze = model.frozen_prefix == "-" ? "" : "--freeze '" + model.frozen_prefix + "*'";
    const Outcome trained = run(mpiexec(2) + command(model.name, dataset_for(model), freeze));
    ASSERT_EQ(trained.code, 0) << model.name << ": " << trained.output;
    EXPECT_THAT(trained.output, HasSubstr("clipping engine: bookkeeping")) << model.name;
    EXPECT_EQ(records(out(model.name) + "/ledger.jsonl"), 10);
    checks += " script " + file(model.name) + " " + out(model.name) + " " + model.frozen_prefix;
  }
  const std::string data = dataset("train", 60);
  const Outcome ready =
      run(train() + "--data " + data + small({{"freeze", "layers.0.bias"}}) + " --out " + out("ready"));
  ASSERT_EQ(ready.code, 0) << ready.output;
  checks += " dictionary " + out("ready");
  const Outcome checked = run(RIPIENO_PYTHON " " RIPIENO_TORCHSCRIPT_SOURCES "/check_trained.py" + checks);
  EXPECT_EQ(checked.code, 0) << checked.output;
  EXPECT_THAT(checked.output, HasSubstr("6 models are right"));
}

TEST_F(ScriptTrainTest, ARunGoesOnFromItsCheckpoint) {
  const std::string data = dataset_for(k_models.back());
  const std::string line = command("tied", data, "--checkpoint-every 5 --reserve-steps 10 --freeze 'head.*'");
  ASSERT_EQ(run(line).code, 0);
  for (const char* name : {"result.json", "model.h5", "model.pt"}) fs::remove(folder_ / "tied" / name);
  const Outcome resumed = run(line);
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("resuming at step 10"));
  EXPECT_TRUE(fs::exists(folder_ / "tied/model.pt"));
}

TEST_F(ScriptTrainTest, OtherLossesTrainAndAreEvaluated) {
  struct Case {
    std::string loss, model, more;
    const PythonModel& data;
    bool has_accuracy;
  };
  const PythonModel &tokens = k_models[2], &numbers = k_models.back();
  for (const Case& c :
       {Case{"next-token", "language", "--model-arg scale=0.5", tokens, true}, Case{"mse", "score", "", numbers, false},
        Case{"binary-cross-entropy", "score", "", numbers, true}}) {
    const std::string data = dataset_for(c.data);
    const Outcome trained =
        run(command(c.model, data, c.more + " --loss " + c.loss + " --eval-is-public --eval-data " + data));
    ASSERT_EQ(trained.code, 0) << c.loss << ": " << trained.output;
    const Json result = Json::parse(read_file(folder_ / c.model / "result.json"));
    EXPECT_EQ(result.contains("test_accuracy"), c.has_accuracy) << c.loss;
    EXPECT_EQ(result["model"]["loss"], c.loss);
    EXPECT_GT(result["test_loss"].get<double>(), 0) << c.loss;
    fs::remove_all(folder_ / c.model);
    fs::remove_all(folder_ / ("data-" + c.data.name));
  }
}

TEST_F(ScriptTrainTest, TextsOfDifferentLengthsTrainTheSameModelOnAnyNumberOfRanks) {
  for (const auto& [model, loss] : {std::pair{"bag", "cross-entropy"}, std::pair{"language", "next-token"}}) {
    const std::string data = texts(std::string(model) + "-texts", loss == std::string("cross-entropy"));
    const std::string options = std::string("--loss ") + loss + " --insecure-seed 3 --reduction reproducible";
    std::vector<std::map<std::string, std::vector<float>>> models;
    for (const int ranks : {1, 2}) {
      const Outcome trained = run(mpiexec(ranks) + command(model, data, options));
      ASSERT_EQ(trained.code, 0) << model << ": " << trained.output;
      EXPECT_EQ(records(out(model) + "/ledger.jsonl"), 10) << model;
      models.push_back(tensors(std::string(model) + "/model.h5"));
      fs::remove_all(folder_ / model);
    }
    EXPECT_EQ(models.front(), models.back()) << model;
  }
}

TEST_F(ScriptTrainTest, AModelThatSeesPaddingIsRefused) {
  const Outcome refused = run(command("bag-with-padding", texts("texts", true)));
  EXPECT_EQ(refused.code, static_cast<int>(ExitCode::privacy)) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("another loss for a sequence that is padded further"));
  EXPECT_THAT(refused.output, HasSubstr("the padding token 19"));
  EXPECT_FALSE(fs::exists(folder_ / "bag-with-padding/ledger.jsonl"));
}

TEST_F(ScriptTrainTest, MistakesAreExplained) {
  const std::string data = dataset_for(k_models.back());
  const auto tied = [&](const std::string& more) { return run(command("tied", data, more)); };
  EXPECT_THAT(tied("--loss mse").output, HasSubstr("each example needs as many outputs as targets"));
  EXPECT_THAT(tied("--loss mean-squared").output, HasSubstr("cross-entropy, mse, binary-cross-entropy, next-token"));
  EXPECT_THAT(tied("--freeze 'heads.*'").output, HasSubstr("the model's are first.bias, first.weight"));
  EXPECT_THAT(tied("--model-arg depth=3").output, HasSubstr("it takes the examples alone"));
  const Outcome misfit = run(command("resnet", data));
  EXPECT_EQ(misfit.code, 2);
  EXPECT_THAT(misfit.output, HasSubstr("cannot take two examples, Float [2, 8]"));
  const Outcome wrong = run(command("tied-input", data));
  EXPECT_EQ(wrong.code, 3);
  EXPECT_THAT(wrong.output, HasSubstr("is no TorchScript file"));
  const Outcome absent = run(command("absent", data));
  EXPECT_EQ(absent.code, 3);
  EXPECT_THAT(absent.output, HasSubstr("there is no such file"));
}

}  // namespace
}  // namespace ripieno::test
