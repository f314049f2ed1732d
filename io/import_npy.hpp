#pragma once

#include <filesystem>
#include <memory>
#include <ripieno/io/example_source.hpp>

namespace ripieno::io {

/// Reads a pair of NPY files of equal first dimension: examples of any shape and number type, and labels of any shape,
/// integers (stored as i64) or floating (f32). norm_scale becomes 1/255 for u8, else 1. The number of classes is what
/// the spec says; for one integer label an example and num_classes 0 it becomes one more than the largest label.
[[nodiscard]] std::unique_ptr<ExampleSource> open_npy(const std::filesystem::path& examples,
                                                      const std::filesystem::path& labels);

}  // namespace ripieno::io
