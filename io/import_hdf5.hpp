#pragma once

#include <filesystem>
#include <memory>
#include <ripieno/io/example_source.hpp>
#include <string>

namespace ripieno::io {

/// Reads examples and labels from two datasets of any HDF5 file (see ForeignArray): labels of any shape, integers
/// (stored as i64) or floating (f32). norm_scale becomes 1/255 for u8, else 1; for one integer label an example and
/// num_classes 0 the number of classes becomes one more than the largest label.
[[nodiscard]] std::unique_ptr<ExampleSource> open_hdf5(const std::filesystem::path& file, const std::string& examples,
                                                       const std::string& labels);

}  // namespace ripieno::io
