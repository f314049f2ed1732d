#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ripieno::io {

/// A float32 array in memory, row-major.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> values;
};

enum class Readers {
  everyone,    ///< mode 0644, less what the umask takes
  owner_only,  ///< mode 0600 from the first byte on: the file holds a secret
};

enum class Overwrite {
  refuse,   ///< DataError when the file exists
  replace,  ///< the new file takes the place of an old one in one instant
};

using TextAttributes = std::map<std::string, std::string>;

/// Writes the arrays as contiguous little-endian datasets of those names at the root of a new HDF5 file, with text
/// attributes on the root and, as attribute `sha256`, a checksum over all of it. The file is there whole and durably,
/// or not at all; equal arguments give equal bytes. Goes to the disk every 8 MB, so that a ledger's record on the same
/// disk never waits behind gigabytes. DataError when it cannot be written; UsageError when a shape does not fit its
/// values, or an attribute is called sha256.
void write_tensor_file(const std::filesystem::path& path, const TextAttributes& attributes,
                       std::span<const NamedTensor> tensors, Readers readers = Readers::everyone,
                       Overwrite overwrite = Overwrite::refuse);

/// A float32 array read from a file.
struct StoredTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

struct TensorFile {
  TextAttributes attributes;  ///< without the checksum
  std::map<std::string, StoredTensor> tensors;
};

/// A whole such file. DataError when it cannot be read, holds something else or does not fit its checksum.
[[nodiscard]] TensorFile read_tensor_file(const std::filesystem::path& path);

}  // namespace ripieno::io
