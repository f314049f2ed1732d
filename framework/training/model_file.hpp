#pragma once

#include <filesystem>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/models/model.hpp>
#include <ripieno/io/staging_folder.hpp>
#include <string>

namespace ripieno {

/// Writes the model with these trained parameters to two files of `folder`, each of which names the ledger that counts
/// what the model cost. Files of a start of the run that was killed before its result was written are replaced.
/// DataError when one cannot be written, PrivacyError when another process has taken the run over.
///   model.h5  every parameter, frozen ones included: one float32 dataset each, named by its dotted path, and root
///             attributes `format`, `model`, `ledger_head` and, of a model that came from a file, `model_sha256`
///   model.pt  for Python: TorchScript where the model came as such, for torch.jit.load; otherwise a dictionary of all
///             parameters, for torch.load(weights_only=True)
void write_model(const std::filesystem::path& folder, const Model& model, const PyTree& params,
                 const std::string& ledger_head, const io::StagingFolder& staging);

/// What a model file holds.
struct StoredModel {
  PyTree params;
  std::string ledger_head;  ///< of the ledger of the run that made it
};

/// The trained parameters of a model.h5 that `write_model` wrote, for a model like `like`. DataError when it cannot be
/// read or holds other tensors.
[[nodiscard]] StoredModel read_model(const std::filesystem::path& path, const Model& like);

}  // namespace ripieno
