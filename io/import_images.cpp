#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/class_folders.hpp>
#include <ripieno/io/image_file.hpp>
#include <ripieno/io/import_images.hpp>

namespace ripieno::io {
namespace {

class ImageSource final : public ExampleSource {
 public:
  explicit ImageSource(const ImageFolder& folder)
      : found_(find_class_folders(folder.root, {".png", ".jpg", ".jpeg"})), channels_(folder.channels) {
    if (channels_ != 1 && channels_ != 3) throw UsageError("images of " + std::to_string(channels_) + " channels");
    if (folder.height.has_value() != folder.width.has_value()) throw UsageError("only one side of an image is given");
    scaled_ = folder.height.has_value();
    if (scaled_) {
      height_ = *folder.height;
      width_ = *folder.width;
      if (height_ < 1 || width_ < 1 || height_ > 1 << 14 || width_ > 1 << 14)
        throw UsageError("an image size out of range");
      return;
    }
    const Image first = read_image(found_.files.front().path, channels_);
    height_ = first.height;
    width_ = first.width;
  }

  void describe(DatasetSpec& spec) const override {
    spec.num_examples = static_cast<std::int64_t>(found_.files.size());
    spec.dtype = DType::u8;
    spec.example_shape = {channels_, height_, width_};
    if (spec.normalisation == Normalisation{}) spec.normalisation.scale = 1.0F / 255.0F;
    spec.class_names = found_.classes;
    spec.num_classes = static_cast<std::int64_t>(found_.classes.size());
  }
  [[nodiscard]] std::vector<std::string> fingerprint() const override {
    std::vector<std::filesystem::path> paths;
    for (const ClassFolders::File& file : found_.files) paths.push_back(file.path);
    return {"images", files_fingerprint(paths), format_shape({channels_, height_, width_})};
  }

  void skip(std::int64_t count) override { done_ += static_cast<std::size_t>(count); }
  void read(std::int64_t count, ExampleBlock& block) override {
    for (std::int64_t i = 0; i < count; ++i) append(found_.files.at(done_++), block);
  }

 private:
  void append(const ClassFolders::File& file, ExampleBlock& block) const {
    Image image = read_image(file.path, channels_);
    if (scaled_) image = resized(image, height_, width_);
    if (image.height != height_ || image.width != width_) {
      throw DataError(file.path.string() + " is " + std::to_string(image.height) + "x" + std::to_string(image.width),
                      "the first image is " + std::to_string(height_) + "x" + std::to_string(width_),
                      "scale all to one size with --size HEIGHTxWIDTH");
    }
    // Stored channel by channel.
    for (std::int64_t channel = 0; channel < channels_; ++channel) {
      for (std::size_t at = static_cast<std::size_t>(channel); at < image.pixels.size();
           at += static_cast<std::size_t>(channels_)) {
        block.x.push_back(static_cast<std::byte>(image.pixels[at]));
      }
    }
    const auto label = std::as_bytes(std::span(&file.label, 1));
    block.y.insert(block.y.end(), label.begin(), label.end());
    ++block.count;
  }

  ClassFolders found_;
  std::int64_t channels_;
  std::int64_t height_ = 0, width_ = 0;
  bool scaled_ = false;
  std::size_t done_ = 0;
};

}  // namespace

std::unique_ptr<ExampleSource> open_images(const ImageFolder& folder) { return std::make_unique<ImageSource>(folder); }

}  // namespace ripieno::io
