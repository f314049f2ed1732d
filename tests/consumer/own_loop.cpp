// A training loop of one's own, written out on the library's parts.
#include <ATen/ATen.h>

#include <cstdio>
#include <ripieno/ripieno.hpp>

using namespace ripieno;

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  return runtime.run([&] {
    at::manual_seed(0);
    const Tensor inputs = at::randn({512, 4});
    const Tensor weight = at::arange(4, at::kFloat).unsqueeze(0);
    const auto dataset = std::make_shared<TensorDataset>(inputs, at::linear(inputs, weight));
    auto [fmodel, params] = make_functional([](const PyTree& p, const Tensor& x) { return at::linear(x, p["weight"]); },
                                            PyTree{{"weight", at::zeros({1, 4})}});
    auto loss_fn = [&](const PyTree& p, const Tensor& x, const Tensor& y) {
      return (fmodel(p, x) - y).square().sum(-1);
    };

    const auto [noise_key, sampling_key] = runtime.run_keys();
    auto [grad_fn, clip_state] =
        clipped_grad(loss_fn, {.clipping_norm = 1.0, .batch_argnums = {1, 2}, .normalize_by = 64});
    auto [noise_fn, noise_state] = gaussian_noise({.noise_multiplier = 0.8, .key = noise_key});
    const auto shard = local_shard(dataset, runtime.rank(), runtime.world_size());
    const PoissonSampler sampler(shard, {.sample_rate = 0.125, .n_steps = 200, .key = sampling_key});
    const auto optimizer = optim::sgd({.lr = 0.2});
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
    const double error = (params["weight"].tensor() - weight).abs().max().item<double>();
    if (runtime.rank() == 0) std::printf("largest error of a weight: %.3f\n", error);
    return error < 1 ? 0 : 1;
  });
}
