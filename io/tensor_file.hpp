#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ripieno::io {

/// A float32 array in memory, row-major.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> values;
};

/// Writes the arrays as contiguous little-endian datasets of those names at the root of a new HDF5 file, with text
/// attributes on the root. The file is there whole and durably, or not at all; equal arguments give equal bytes.
/// DataError when it exists or cannot be written; UsageError when a shape does not fit its values.
void write_tensor_file(const std::filesystem::path& path,
                       std::span<const std::pair<std::string, std::string>> attributes,
                       std::span<const NamedTensor> tensors);

/// A float32 array read from a file.
struct StoredTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// All datasets at the root of such a file, by name. DataError when it cannot be read or holds something else.
[[nodiscard]] std::map<std::string, StoredTensor> read_tensor_file(const std::filesystem::path& path);

}  // namespace ripieno::io
