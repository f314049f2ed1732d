#pragma once

#include <map>
#include <ripieno/framework/core/pytree.hpp>
#include <string>

namespace ripieno {

/// Writes the leaves as a dictionary of float32 tensors by their dotted paths, in PyTorch's own format, to a new file:
/// torch.load(path, weights_only=True) reads it, and module.load_state_dict takes what that returns. `notes` become
/// records extra/NAME of the archive. DataError when the file cannot be written.
void write_state_dict(const std::string& path, const PyTree& params,
                      const std::map<std::string, std::string>& notes = {});

}  // namespace ripieno
