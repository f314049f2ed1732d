#pragma once

#include <cstdint>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/models/model.hpp>
#include <ripieno/framework/sampling/dataset.hpp>

namespace ripieno {

/// How a classifier does on a whole dataset.
struct Evaluation {
  std::int64_t num_examples = 0;
  double accuracy = 0;   ///< fraction whose largest logit is the label
  double mean_loss = 0;  ///< softmax cross entropy; not finite when one example's is not
};

/// Collective. Each rank runs its share of the examples through the model in batches of `batch_size`.
[[nodiscard]] Evaluation evaluate(const Communicator& communicator, const Model& model, const PyTree& params,
                                  const Dataset& dataset, std::int64_t batch_size = 1024);

}  // namespace ripieno
