#pragma once

#include <filesystem>
#include <memory>
#include <ripieno/io/example_source.hpp>
#include <ripieno/io/table_schema.hpp>
#include <vector>

namespace ripieno::io {

/// Reads CSV or TSV files, each with a line of column names, one record an example: float32 features in the schema's
/// order of columns, the label or the targets, the id. The files must have the schema's columns, in any order.
/// DataError names file, line and column of a field that is not what the schema says, and not its value (invariant P1).
/// The files are read twice: once to count the records.
[[nodiscard]] std::unique_ptr<ExampleSource> open_table(std::vector<std::filesystem::path> files, char delimiter,
                                                        const std::filesystem::path& schema);

}  // namespace ripieno::io
