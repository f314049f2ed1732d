// The smallest whole training loop: linear regression on data made up here. Run it with any number of ranks:
//   mpiexec -n 2 minimal_example
// This form keeps no ledger; planned_example.cpp is the one to copy for data that matter.
#include <ATen/ATen.h>

#include <cstdio>
#include <ripieno/ripieno.hpp>

using namespace ripieno;

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  auto [noise_key, sampling_key] = runtime.run_keys();

  constexpr std::int64_t num_examples = 4096, batch_size = 256;
  at::manual_seed(0);  // public data, the same on every rank
  const Tensor inputs = at::randn({num_examples, 8});
  const Tensor weight = at::arange(8, at::kFloat).unsqueeze(0);
  const auto dataset = std::make_shared<TensorDataset>(inputs, at::linear(inputs, weight));

  auto [fmodel, params] =
      make_functional([](const PyTree& p, const Tensor& x) { return at::linear(x, p["weight"], p["bias"]); },
                      PyTree{{"weight", at::zeros({1, 8})}, {"bias", at::zeros({1})}});
  auto loss_fn = [&](const PyTree& p, const Tensor& x, const Tensor& y) { return (fmodel(p, x) - y).square().sum(-1); };

  auto [grad_fn, clip_state] = clipped_grad(
      loss_fn, {.clipping_norm = 1.0, .batch_argnums = {1, 2}, .normalize_by = static_cast<double>(batch_size)});
  auto [noise_fn, noise_state] = gaussian_noise({.noise_multiplier = 1.1, .key = noise_key});
  auto shard = local_shard(dataset, runtime.rank(), runtime.world_size());
  PoissonSampler sampler(shard,
                         {.sample_rate = double(batch_size) / num_examples, .n_steps = 400, .key = sampling_key});
  auto optimizer = optim::sgd({.lr = 0.2});
  auto opt_state = optimizer.init(params);

  for (auto [x, y] : DataLoader(shard, sampler)) {
    auto [grads, next_clip] = grad_fn(params, x, y, clip_state);
    auto [noisy, next_noise] = noise_fn(sum_gradients(grads), noise_state);
    auto [updates, next_opt] = optimizer.update(noisy, opt_state);
    params = apply_updates(params, updates);
    clip_state = next_clip;
    noise_state = next_noise;
    opt_state = next_opt;
  }

  if (runtime.rank() == 0) {
    const double error = (params["weight"].tensor() - weight).abs().max().item<double>();
    std::printf("largest error of a weight: %.3f\n", error);
  }
}
