#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <ripieno/io/example_source.hpp>

namespace ripieno::io {

struct ImageFolder {
  std::filesystem::path root;  ///< ROOT/CLASS/…/*.png, *.jpg, *.jpeg
  std::int64_t channels = 3;   ///< 1 (grey) or 3 (RGB)
  /// Height and width to scale every image to; without, all must be of one size.
  std::optional<std::int64_t> height = {}, width = {};
};

/// Reads a folder of images: u8 [channels, height, width] with scale 1/255, classes named by the folders.
[[nodiscard]] std::unique_ptr<ExampleSource> open_images(const ImageFolder& folder);

}  // namespace ripieno::io
