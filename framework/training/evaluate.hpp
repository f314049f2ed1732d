#pragma once

#include <cstdint>
#include <optional>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/models/model.hpp>
#include <ripieno/framework/models/objective.hpp>
#include <ripieno/framework/sampling/dataset.hpp>

namespace ripieno {

/// How a model does on a whole dataset.
struct Evaluation {
  std::int64_t num_examples = 0;
  std::optional<double> accuracy;  ///< mean of the objective's, where it has one
  double mean_loss = 0;            ///< not finite when one example's is not
};

/// Collective. Each rank runs its share of the examples through the model in batches of `batch_size`.
[[nodiscard]] Evaluation evaluate(const Communicator& communicator, const Model& model, const Objective& objective,
                                  const PyTree& params, const Dataset& dataset, std::int64_t batch_size = 1024);

}  // namespace ripieno
