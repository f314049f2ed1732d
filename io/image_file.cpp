#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/file.hpp>
#include <ripieno/io/image_file.hpp>
#include <span>
#include <string>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t k_max_pixels = std::int64_t{1} << 27;
constexpr std::int64_t k_max_file_bytes = std::int64_t{1} << 30;

[[noreturn]] void fail(const fs::path& path, const std::string& what, const std::string& why) {
  throw DataError(path.string() + ": " + what, why, "replace or remove the file");
}

std::vector<std::uint8_t> read_whole(const fs::path& path) {
  const OpenFile file = open_regular_file(path);
  if (file.identity.bytes > k_max_file_bytes) fail(path, "not an image", "it is larger than 1 GB");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(file.identity.bytes));
  read_at(file.fd.get(), 0, std::as_writable_bytes(std::span(bytes)), path);
  return bytes;
}

Image sized(const fs::path& path, std::int64_t height, std::int64_t width, std::int64_t channels) {
  if (height < 1 || width < 1 || height > k_max_pixels / width) {
    fail(path, "an unusable image", std::to_string(height) + "x" + std::to_string(width) + " pixels");
  }
  return {.height = height,
          .width = width,
          .channels = channels,
          .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * channels))};
}

Image decode_png(const fs::path& path, std::span<const std::uint8_t> bytes, std::int64_t channels) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const auto release = [](png_image* image) { png_image_free(image); };
  const std::unique_ptr<png_image, decltype(release)> owner(&png, release);
  if (png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) == 0) fail(path, "damaged PNG", png.message);
  png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Image image = sized(path, png.height, png.width, channels);
  const png_color black{};
  if (png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr) == 0) fail(path, "damaged PNG", png.message);
  return image;
}

Image decode_jpeg(const fs::path& path, std::span<const std::uint8_t> bytes, std::int64_t channels) {
  const auto release = [](void* handle) { tjDestroy(handle); };
  const std::unique_ptr<void, decltype(release)> decoder(tjInitDecompress(), release);
  int width = 0, height = 0, subsampling = 0, colours = 0;
  const auto size = static_cast<unsigned long>(bytes.size());
  if (tjDecompressHeader3(decoder.get(), bytes.data(), size, &width, &height, &subsampling, &colours) != 0) {
    fail(path, "damaged JPEG", tjGetErrorStr2(decoder.get()));
  }
  Image image = sized(path, height, width, channels);
  const int format = channels == 1 ? TJPF_GRAY : TJPF_RGB;
  if (tjDecompress2(decoder.get(), bytes.data(), size, image.pixels.data(), width, 0, height, format,
                    TJFLAG_ACCURATEDCT) != 0) {
    fail(path, "damaged JPEG", tjGetErrorStr2(decoder.get()));
  }
  return image;
}

/// Weights of source pixels first, first + 1, ... in one target pixel.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights;
};

std::vector<Taps> triangle_taps(std::int64_t from, std::int64_t to) {
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(1.0, step);
  std::vector<Taps> taps(static_cast<std::size_t>(to));
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * step - 0.5;
    taps[i].first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(centre - reach)));
    const auto last = std::min(from - 1, static_cast<std::int64_t>(std::floor(centre + reach)));
    double sum = 0;
    for (std::int64_t source = taps[i].first; source <= last; ++source) {
      taps[i].weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(source) - centre) / reach));
      sum += taps[i].weights.back();
    }
    for (double& weight : taps[i].weights) weight /= sum;
  }
  return taps;
}

// One axis: `lines` lines, each of taps.size() target positions; positions and lines are so many elements apart.
void filter(std::span<const double> in, std::span<double> out, const std::vector<Taps>& taps, std::int64_t lines,
            std::int64_t in_line, std::int64_t out_line, std::int64_t in_step, std::int64_t out_step) {
  for (std::int64_t line = 0; line < lines; ++line) {
    for (std::size_t i = 0; i < taps.size(); ++i) {
      double value = 0;
      std::int64_t at = line * in_line + taps[i].first * in_step;
      for (const double weight : taps[i].weights) {
        value += weight * in[static_cast<std::size_t>(at)];
        at += in_step;
      }
      out[static_cast<std::size_t>(line * out_line + static_cast<std::int64_t>(i) * out_step)] = value;
    }
  }
}

}  // namespace

Image read_image(const fs::path& path, std::int64_t channels) {
  const std::vector<std::uint8_t> bytes = read_whole(path);
  if (bytes.empty()) fail(path, "not an image", "it is empty");
  if (bytes.size() > 8 && png_sig_cmp(bytes.data(), 0, 8) == 0) return decode_png(path, bytes, channels);
  if (bytes.size() > 3 && bytes[0] == 0xff && bytes[1] == 0xd8) return decode_jpeg(path, bytes, channels);
  fail(path, "not an image", "neither PNG nor JPEG by its first bytes");
}

Image resized(const Image& image, std::int64_t height, std::int64_t width) {
  if (image.height == height && image.width == width) return image;
  const std::int64_t c = image.channels;
  const std::vector<double> in(image.pixels.begin(), image.pixels.end());
  std::vector<double> narrowed(static_cast<std::size_t>(image.height * width * c));
  std::vector<double> out(static_cast<std::size_t>(height * width * c));
  const std::vector<Taps> across = triangle_taps(image.width, width);
  for (std::int64_t channel = 0; channel < c; ++channel) {
    const auto from = static_cast<std::size_t>(channel);
    filter(std::span(in).subspan(from), std::span(narrowed).subspan(from), across, image.height, image.width * c,
           width * c, c, c);
  }
  filter(narrowed, out, triangle_taps(image.height, height), width * c, 1, 1, width * c, width * c);
  Image result{.height = height, .width = width, .channels = c, .pixels = {}};
  for (const double value : out) result.pixels.push_back(static_cast<std::uint8_t>(std::lround(value)));
  return result;
}

}  // namespace ripieno::io
