#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ripieno::io {

/// A matrix in memory, row by row.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;
};

/// A two-dimensional dataset of real numbers in an HDF5 file. DataError where there is none, or it is larger than
/// 1024 x 1024, which a ledger line can still hold.
[[nodiscard]] Matrix read_matrix(const std::filesystem::path& path, const std::string& dataset);

}  // namespace ripieno::io
