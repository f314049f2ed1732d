#pragma once

#include <cstdint>

#include "bookkeeping_cases.hpp"

namespace ripieno::cases {

struct RandomModel {
  Case loss;               ///< its name lists the layers
  bool has_kinks = false;  ///< ReLU or max-pooling: float32 and float64 may be on different sides
};

/// A model of one to six random layers over vectors, sequences, images or ids, with tied, frozen and computed
/// parameters among them. A function of the seed.
[[nodiscard]] RandomModel random_model(std::uint64_t seed);

}  // namespace ripieno::cases
