#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace ripieno::io {

/// Pixels in memory, [height, width, channels] row-major, 8 bits each.
struct Image {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels;
};

/// A decoded PNG or JPEG file, told apart by their first bytes, as grey (1 channel) or RGB (3). Transparent pixels are
/// laid over black; 16 bits become 8. DataError names the file and the fault; an image of over 2^27 pixels is refused
/// before it is decoded.
[[nodiscard]] Image read_image(const std::filesystem::path& path, std::int64_t channels);

/// The image in another size, each axis filtered by a triangle as wide as the step between target pixels, or two source
/// pixels where it grows.
[[nodiscard]] Image resized(const Image& image, std::int64_t height, std::int64_t width);

}  // namespace ripieno::io
