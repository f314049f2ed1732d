#pragma once

#include <ripieno/framework/training/trainer.hpp>

namespace ripieno {

/// The whole of `ripieno-train` around a model of one's own: command line, MPI, training, ledger, files. Returns the
/// exit code; prints errors itself. `make_model` sees `--model` and `--model-arg` in its ModelSpec.
///
///     int main(int argc, char** argv) { return ripieno::train_main(argc, argv, make_my_model); }
[[nodiscard]] int train_main(int argc, char** argv, const ModelFactory& make_model);

}  // namespace ripieno
