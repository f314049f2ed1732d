#include <ATen/ATen.h>

#include <numeric>
#include <ripieno/framework/sampling/shard.hpp>
#include <ripieno/framework/training/collectively.hpp>
#include <ripieno/framework/training/evaluate.hpp>

namespace ripieno {

Evaluation evaluate(const Communicator& communicator, const Model& model, const PyTree& params, const Dataset& dataset,
                    std::int64_t batch_size) {
  const at::NoGradGuard no_grad;
  const IdRange mine = local_range(dataset.num_examples(), communicator.rank(), communicator.size());
  std::array<std::int64_t, 1> correct{0};
  std::array<double, 1> loss{0};
  collectively(communicator, [&] {
    for (std::int64_t begin = mine.begin; begin < mine.end; begin += batch_size) {
      std::vector<std::int64_t> ids(static_cast<std::size_t>(std::min(batch_size, mine.end - begin)));
      std::iota(ids.begin(), ids.end(), begin);
      const auto [x, y] = dataset.gather(ids);
      const at::Tensor logits = model.forward(params, model.feature_map ? model.feature_map(x) : x);
      correct[0] += logits.argmax(1).eq(y).sum().item<std::int64_t>();
      loss[0] += softmax_cross_entropy(logits, y).sum(at::kDouble).item<double>();
    }
  });
  communicator.allreduce_sum(std::span<std::int64_t>(correct));
  communicator.allreduce_sum(std::span<double>(loss));
  const auto total = static_cast<double>(dataset.num_examples());
  return {dataset.num_examples(), static_cast<double>(correct[0]) / total, loss[0] / total};
}

}  // namespace ripieno
