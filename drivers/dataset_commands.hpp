#pragma once

#include <ripieno/accounting/cli/options.hpp>
#include <ripieno/io/example_source.hpp>
#include <span>
#include <string>
#include <vector>

// The commands of ripieno-dataset: each reads its own options and returns an exit code.

namespace ripieno::dataset {

[[nodiscard]] int run_import(std::span<const std::string> arguments);
[[nodiscard]] int run_reshard(std::span<const std::string> arguments);
[[nodiscard]] int run_split(std::span<const std::string> arguments);
[[nodiscard]] int run_features(std::span<const std::string> arguments);
[[nodiscard]] int run_info(std::span<const std::string> arguments);
[[nodiscard]] int run_verify(std::span<const std::string> arguments);

/// What the executable was linked with, for --version.
[[nodiscard]] std::vector<std::string> dependencies();

/// Options that say where output goes: --out, --name, --shards, --force.
void add_output(cli::Group& group, io::ImportTarget& target);

/// Runs an import with a progress line and says what was written.
void write_output(std::unique_ptr<io::ExampleSource> source, const io::ImportTarget& target, const std::string& what);

}  // namespace ripieno::dataset
