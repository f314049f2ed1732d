#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/framework/clipping/clipped_grad.hpp>

#include "oracle_cases.hpp"
#include "support.hpp"

// Values recorded from an independent implementation: tests/data/a_clipped_grad_{mlp,conv}.json. Tolerances: float32
// sums 2e-5 relative + 1e-6, norms and losses 1e-5; float64 1e-12.

namespace ripieno {
namespace {

using namespace testing_support;

using Loss = at::Tensor (*)(const PyTree&, const at::Tensor&, const at::Tensor&);

class Oracle : public OnEveryEngine {
 protected:
  Oracle() { at::set_num_threads(1); }  // the tensors are tiny; threads would only wait for each other

  void check_file(const std::string& name, Loss loss) {
    const Json file = read_json(std::string(RIPIENO_TEST_DATA) + "/" + name);
    ASSERT_EQ(file.at("cases").size(), 2U);
    for (const Json& recorded : file.at("cases")) {
      const Case example(recorded);
      const auto engine = make_engine(GetParam());
      for (const Json& run : recorded.at("runs")) {
        SCOPED_TRACE(name + " " + recorded.at("dtype").get<std::string>() + " C " + run.at("clipping_norm").dump() +
                     " n " + run.at("normalize_by").dump() + " m " + run.at("microbatch_size").dump());
        check_run(*engine, example, run, loss);
        if (!run.at("microbatch_size").is_null()) check_gradient(example, run, loss);
      }
      check_empty_batch(example, recorded.at("second_moment"), recorded.at("empty_batch"), loss);
    }
  }

 private:
  static ClippingOptions options_of(const Json& run) {
    ClippingOptions options = {.clipping_norm = rounded_down_to_float(run.at("clipping_norm").get<double>()),
                               .batch_argnums = {1, 2},
                               .normalize_by = run.at("normalize_by").get<double>(),
                               .engine = GetParam()};
    if (!run.at("microbatch_size").is_null()) options.microbatch_size = run.at("microbatch_size").get<std::int64_t>();
    return options;
  }

  static void expect_sum(const PyTree& sum, const Case& example, const Json& run) {
    const bool wide = example.dtype == at::kDouble;
    for (const auto& [name, values] : run.at("sum").items())
      expect_close(sum[name], values.get<std::vector<double>>(), wide ? 1e-12 : 2e-5, wide ? 1e-14 : 1e-6);
  }

  void check_gradient(const Case& example, const Json& run, Loss loss) {
    auto [grad_fn, state] = clipped_grad(loss, options_of(run));
    const Clipped<PyTree> clipped = grad_fn(example.params, example.x, example.y, state).first;
    EXPECT_NEAR(clipped.max_norm(), run.at("max_norm").get<double>(), 1e-7 * clipped.max_norm());
    expect_sum(clipped.tree(), example, run);
  }

  void check_run(ClippingEngine& engine, const Case& example, const Json& run, Loss loss) {
    const ClippingOptions options = options_of(run);
    const LossFn fn = [loss](const PyTree& p, std::span<const at::Tensor> b) { return loss(p, b[0], b[1]); };
    const std::vector<at::Tensor> batch{example.x, example.y};
    const MicrobatchResult result = engine.clip(fn, example.params, batch, ClippingRule(options.clipping_norm));
    const double relative = example.dtype == at::kDouble ? 1e-12 : 1e-5;
    expect_close(result.losses, run.at("loss_values").get<std::vector<double>>(), relative, relative);
    expect_close(result.norms, run.at("grad_norms").get<std::vector<double>>(), relative, 1e-15);

    const std::vector<std::int64_t> cuts = microbatch_cuts(example.x.size(0), options.microbatch_size);
    const ClippedSum sum = clipped_sum(engine, fn, example.params, batch, cuts, options);
    expect_sum(unflatten(example.params, sum.flat / options.normalize_by), example, run);
    EXPECT_EQ(sum.batch_size, run.at("batch_size").get<std::int64_t>());
    const double expected_clipped = run.at("clipping_rate").get<double>() * static_cast<double>(sum.batch_size);
    EXPECT_NEAR(static_cast<double>(sum.num_clipped), expected_clipped, 1e-9);
  }

  void check_empty_batch(const Case& example, const Json& options, const Json& expected, Loss loss) {
    auto [grad_fn, state] = clipped_grad(loss, {.clipping_norm = options.at("clipping_norm").get<double>(),
                                                .batch_argnums = {1, 2},
                                                .normalize_by = options.at("normalize_by").get<double>(),
                                                .engine = GetParam()});
    const Clipped<PyTree> clipped =
        grad_fn(example.params, example.x.narrow(0, 0, 0), example.y.narrow(0, 0, 0), state).first;
    EXPECT_DOUBLE_EQ(clipped.max_norm(), expected.at("max_norm").get<double>());
    EXPECT_EQ(flatten(clipped.tree()).count_nonzero().item<std::int64_t>(), 0);
  }
};

TEST_P(Oracle, MultilayerPerceptronMatchesTheRecordedValues) { check_file("a_clipped_grad_mlp.json", mlp_loss); }
TEST_P(Oracle, ConvolutionMatchesTheRecordedValues) { check_file("a_clipped_grad_conv.json", conv_loss); }
RIPIENO_FOR_EVERY_ENGINE(Oracle);

}  // namespace
}  // namespace ripieno
