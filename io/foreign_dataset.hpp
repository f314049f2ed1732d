#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <ripieno/io/foreign_array.hpp>
#include <ripieno/io/shard_info.hpp>
#include <string>

namespace ripieno::io {

/// Which datasets of a foreign HDF5 file hold examples and labels.
struct FieldMap {
  std::string x = "x", y = "y";
};

/// Those datasets of a foreign file that can only be read through HDF5.
struct ForeignArrays {
  std::optional<ForeignArray> x, y;
};

/// A foreign file as if it were the one shard of a dataset. Its id is the file's attribute `dataset_id`, or a function
/// of path, datasets and number of examples.
struct ForeignDataset {
  ShardInfo info;
  std::unique_ptr<ForeignArrays> arrays;  ///< null when all lies there as in a shard
};

/// Opens such a file. Datasets that are contiguous, little-endian and of a shard's types are read as fast as a shard;
/// for others a warning says how many times slower they are, measured, and how to convert them. DataError names file,
/// dataset and fault.
[[nodiscard]] ForeignDataset open_foreign_dataset(const std::filesystem::path& path, const FieldMap& fields);

}  // namespace ripieno::io
