#pragma once

#include <ripieno/framework/models/model.hpp>
#include <span>
#include <string>

namespace ripieno {

/// The model with some of its parameters left as they are: those whose dotted path matches one of the patterns of the
/// shell ("encoder.*", "*.bias"; '*' matches dots too). They move from `params` to `frozen`. UsageError for a pattern
/// that matches nothing, naming what there is, or when nothing is left to train.
[[nodiscard]] Model freeze(Model model, std::span<const std::string> patterns);

/// `params` and the frozen parameters in one tree, by their dotted paths.
[[nodiscard]] PyTree all_params(const Model& model, const PyTree& params);

}  // namespace ripieno
