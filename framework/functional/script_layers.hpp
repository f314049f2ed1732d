#pragma once

#include <string>

namespace torch::jit {
struct Module;
}

namespace ripieno {

/// UsageError when the module's forward prints, or, naming the layer, when it normalises over the examples of a batch
/// or updates running statistics: by the class that the layer had in Python, and by the operators of the code, which
/// know it where the class does not say (functional calls, traced modules).
void check_script_layers(const torch::jit::Module& module);

/// Whether the module's forward calls the operator, as in "aten::lstm", itself or in a layer.
[[nodiscard]] bool script_calls(const torch::jit::Module& module, const std::string& operation);

}  // namespace ripieno
