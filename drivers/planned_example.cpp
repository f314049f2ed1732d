// The recommended training loop: one PrivacyPlan is the contract that sampler, clipper, noiser and ledger read, and no
// noise is added to a step that the ledger has not recorded. Run it with any number of ranks:
//   mpiexec -n 2 planned_example LEDGER
//   ripieno-privacy analyze LEDGER --delta 1e-5
#include <ATen/ATen.h>

#include <cstdio>
#include <ripieno/ripieno.hpp>

using namespace ripieno;

namespace {

int train(const Runtime& runtime, const char* ledger_path) {
  constexpr std::int64_t num_examples = 4096;
  at::manual_seed(0);  // stands for data that were read: the same on every rank
  const Tensor inputs = at::randn({num_examples, 8});
  const Tensor weight = at::arange(8, at::kFloat).unsqueeze(0);
  const auto dataset = std::make_shared<TensorDataset>(inputs, at::linear(inputs, weight));

  auto [fmodel, params] =
      make_functional([](const PyTree& p, const Tensor& x) { return at::linear(x, p["weight"], p["bias"]); },
                      PyTree{{"weight", at::zeros({1, 8})}, {"bias", at::zeros({1})}});
  auto loss_fn = [&](const PyTree& p, const Tensor& x, const Tensor& y) { return (fmodel(p, x) - y).square().sum(-1); };

  const PrivacyPlan plan({.num_examples = num_examples,
                          .dataset_id = "00000000-0000-0000-0000-000000000000",
                          .expected_batch = 256,
                          .steps = 400,
                          .noise_multiplier = 1.1,
                          .clipping_norm = 1.0,
                          .delta = 1e-5,
                          .world_size = runtime.world_size()});
  const RunSecret secret = runtime.share_secret();
  const auto [noise_key, sampling_key] = make_run_keys(secret);
  Ledger ledger(runtime.communicator(), ledger_path, plan, secret.nonce_hash());

  auto [grad_fn, clip_state] = clipped_grad(loss_fn, plan);
  auto [noise_fn, noise_state] = gaussian_noise(plan, ledger, noise_key);
  auto shard = local_shard(dataset, runtime.rank(), runtime.world_size());
  const PoissonSampler sampler(shard, plan, sampling_key);
  auto optimizer = optim::sgd({.lr = 0.2});
  auto opt_state = optimizer.init(params);

  for (const Batch& batch : DataLoader(shard, sampler)) {
    ledger.record(batch.step);
    auto [grads, next_clip] = grad_fn(params, batch, clip_state);
    auto [noisy, next_noise] = noise_fn(sum_gradients(grads), noise_state);
    auto [updates, next_opt] = optimizer.update(noisy / plan.expected_batch(), opt_state);
    params = apply_updates(params, updates);
    clip_state = next_clip;
    noise_state = next_noise;
    opt_state = next_opt;
  }

  if (runtime.rank() == 0) {
    const double error = (params["weight"].tensor() - weight).abs().max().item<double>();
    std::printf("largest error of a weight: %.3f; ledger head %s\n", error, ledger.head().c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: planned_example LEDGER\n");
    return static_cast<int>(ExitCode::usage);
  }
  return runtime.run([&] { return train(runtime, argv[1]); });
}
