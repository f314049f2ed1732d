#pragma once

#include <ripieno/framework/models/model.hpp>
#include <string_view>

namespace ripieno {

/// Whether a --model names a TorchScript file rather than a ready model: it ends in ".pt" or ".pth".
[[nodiscard]] bool names_script_file(std::string_view model);

/// The model in the TorchScript file `spec.name`, scripted or traced in Python, with the weights that it was saved
/// with. `spec.args` are further arguments of its forward, after the examples, by name; shape, classes and seed are not
/// used.
///
/// Model::forward returns what the module's forward does, which need not be logits. DataError when the file cannot be
/// read or is no TorchScript; UsageError for a parameter that is not float32, an argument that forward does not take,
/// and what ScriptFunction refuses.
[[nodiscard]] Model make_script_model(const ModelSpec& spec);

}  // namespace ripieno
