#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <numeric>
#include <ripieno/framework/core/tree_device.hpp>
#include <ripieno/framework/sampling/shard.hpp>
#include <ripieno/framework/training/collectively.hpp>
#include <ripieno/framework/training/evaluate.hpp>

namespace ripieno {

Evaluation evaluate(const Communicator& communicator, const Model& model, const Objective& objective,
                    const PyTree& params, const Dataset& dataset, std::int64_t batch_size) {
  const at::NoGradGuard no_grad;
  const IdRange mine = local_range(dataset.num_examples(), communicator.rank(), communicator.size());
  const at::Device device = device_of(params);
  std::array<double, 2> sums{};
  double& loss = sums[0];
  double& accuracy = sums[1];
  collectively(communicator, [&] {
    for (std::int64_t begin = mine.begin; begin < mine.end; begin += batch_size) {
      std::vector<std::int64_t> ids(static_cast<std::size_t>(std::min(batch_size, mine.end - begin)));
      std::iota(ids.begin(), ids.end(), begin);
      const auto [examples, targets] = dataset.gather(ids);
      const at::Tensor x = (model.feature_map ? model.feature_map(examples) : examples).to(device);
      const at::Tensor y = targets.to(device);
      const at::Tensor outputs = model.forward(params, x);
      loss += objective.loss(outputs, x, y).sum(at::kDouble).item<double>();
      if (objective.accuracy) accuracy += objective.accuracy(outputs, x, y).sum().item<double>();
    }
  });
  communicator.allreduce_sum(std::span<double>(sums));
  const auto total = static_cast<double>(dataset.num_examples());
  Evaluation evaluation{.num_examples = dataset.num_examples(), .accuracy = {}, .mean_loss = loss / total};
  if (objective.accuracy) evaluation.accuracy = accuracy / total;
  return evaluation;
}

}  // namespace ripieno
