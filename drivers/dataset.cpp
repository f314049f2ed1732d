// ripieno-dataset: makes, changes, shows and checks sharded datasets.

#include <ripieno/accounting/cli/program.hpp>
#include <ripieno/io/hdf5_version.hpp>

#include "dataset_commands.hpp"

namespace ripieno::dataset {

std::vector<std::string> dependencies() { return {"HDF5 " + io::hdf5_version()}; }

}  // namespace ripieno::dataset

int main(int argc, char** argv) {
  using namespace ripieno;
  return cli::run_program("ripieno-dataset", [&] {
    const std::vector<cli::Command> commands{
        {"import", "make a dataset", dataset::run_import},
        {"info", "show what a dataset says of itself", dataset::run_info},
        {"verify", "check every byte of a dataset", dataset::run_verify},
        {"reshard", "the same dataset in another number of files", dataset::run_reshard},
        {"split", "deal a dataset out at random, as for validation", dataset::run_split},
        {"features", "apply a public feature map once", dataset::run_features}};
    return cli::dispatch("ripieno-dataset", "Makes, shows and checks the sharded datasets that ripieno-train reads.",
                         commands, cli::arguments(argc, argv), dataset::dependencies());
  });
}
