// Lines of the pages that stand in no other program: check_pages.py finds them here, and here they run, on one rank.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <unistd.h>

#include <filesystem>
#include <ripieno/accounting/engine/calibrate.hpp>
#include <ripieno/accounting/engine/process.hpp>
#include <ripieno/accounting/mechanisms/optimise.hpp>

#include <ripieno/ripieno.hpp>
using namespace ripieno;

namespace {

/// A state with one field of each rule, as in docs/distributed.md.
struct S {
  double loss = 1.5;
  double threshold = 0.1;
  std::int64_t rank = 0;
};

TEST(Accounting, ComposesAndCalibrates) {
  using namespace ripieno::accounting;
  const Process process = poisson(gaussian(1.1), 256.0 / 60000) * 14063 | gaussian(8.0);
  process.epsilon_at(1e-5);   // Interval {lower, upper}
  process.delta_at(2.0);      // Interval
  process.beta_at(0.01);      // Interval: least false negative rate at false positive rate 0.01; publish lower
  process.advantage();        // delta_at(0)
  process.epsilon_rdp(1e-5);  // Renyi bound, to stand beside it
  calibrate_noise_multiplier(3, 1e-5, 0.01, 1000);
  calibrate(3, [](double sigma) { return /* any upper bound on epsilon at sigma */ 3 / sigma; });
  EXPECT_GE(process.epsilon_at(1e-5).upper, process.epsilon_at(1e-5).lower);
}

TEST(Distributed, CollectivesAreLocalWithoutARuntime) {
  const Clipped<PyTree> grads(PyTree{{"w", at::ones({2})}}, 1.0, Extent::local);
  const Tensor scores = at::ones({3});
  const double loss_sum = 2;
  const PyTree params{{"w", at::ones({2})}};
  const auto loss_fn = [](const PyTree& p, const Tensor& x) { return at::mv(x, p["w"].tensor()); };
  const auto [grad_fn, clip_state] = clipped_grad(loss_fn, {.clipping_norm = 1.0});
  const auto [noise_fn, noise_state] = gaussian_noise({.noise_multiplier = 1.1, .key = key(1)});
  const S state;
  S next;
  auto sum = sum_gradients(grads);  // Clipped stays Clipped, bound unchanged
  auto loss = distributed::reduce_scalar(loss_sum, distributed::Op::mean);
  auto all = distributed::gather_tensors(scores, 0);       // sizes may differ between ranks
  distributed::assert_pytree_equal(params, "parameters");  // 128 bits of the bytes; names leaf and ranks
  auto [clip, noise] = distributed::sync(clip_state, noise_state);
  next = distributed::sync_object(state, distributed::field("loss", &S::loss, distributed::Op::sum),
                                  distributed::field("threshold", &S::threshold, distributed::assert_equal),
                                  distributed::field("rank", &S::rank, distributed::local));
  EXPECT_EQ(loss, 2);
  EXPECT_EQ(next.loss, 1.5);
}

TEST(Optimizers, TakeASchedule) {
  PyTree params{{"w", at::ones({2})}};
  const PyTree noisy{{"w", at::ones({2})}};
  auto optimizer = optim::adamw({.lr = optim::cosine({.initial = 2e-3, .steps = 1000}), .noise_bias_correction = true});
  auto state = optimizer.init(params);
  auto [updates, next] = optimizer.update(noisy, state, params);  // a pure function
  params = apply_updates(params, updates);
  EXPECT_LT(params["w"].tensor().max().item<float>(), 1);
}

TEST(Mechanisms, CorrelatedNoiseIsMadeForAnEpochOfBatchesInOrder) {
  const PyTree params{{"w", at::ones({2})}};
  const Key noise_key = key(1);
  const std::int64_t steps = 8, epoch = 4, batch = 5;
  const Shard shard{.dataset = nullptr, .range = {0, 20}};
  auto [noise_fn, noise_state] =
      mf_gaussian_noise(params, {.strategy = accounting::optimal_blt(4, steps, {.min_separation = epoch}),
                                 .n_steps = steps,
                                 .noise_multiplier = 8,
                                 .key = noise_key});
  SequentialSampler sampler(shard.range, epoch, batch, steps);
  EXPECT_EQ(noise_state.step, 0);
}

TEST(YourOwnModelInPython, IsAFunctionOfItsParameters) {
  const auto folder = std::filesystem::temp_directory_path() / ("ripieno-docs-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  torch::jit::Module module("double");
  module.register_parameter("weight", at::ones({2}).requires_grad_(), /*is_buffer=*/false);
  module.define("def forward(self, x):\n  return 2 * self.weight * x\n");
  module.save("my-model.pt");
  auto [model, params] = ripieno::make_functional(torch::jit::load("my-model.pt"));
  EXPECT_EQ(model(params, at::ones({2})).sum().item<double>(), 4);
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
}

}  // namespace
