#pragma once

#include <filesystem>
#include <ripieno/framework/core/pytree.hpp>
#include <string>

namespace ripieno {

/// Writes `params` (float32) to a new HDF5 file: one dataset a leaf, named by its dotted path, and root attributes
/// `format`, `model` and `ledger_head`, which names the ledger that counts what the model cost. DataError when the file
/// exists.
void write_model(const std::filesystem::path& path, const std::string& model_name, const PyTree& params,
                 const std::string& ledger_head);

}  // namespace ripieno
