#include <algorithm>
#include <array>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/idx.hpp>
#include <ripieno/io/import_idx.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

template <class T>
void widen(std::span<const std::byte> bytes, std::span<std::int64_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = value;
  }
}

// Labels are a few bytes an example: they are read whole, so that the number of classes is known before x is written.
std::vector<std::int64_t> read_labels(const fs::path& path) {
  IdxReader reader(path);
  if (reader.shape().size() != 1 || reader.dtype() == DType::f32) {
    throw DataError(path.string() + " does not hold labels",
                    "one integer an example is expected, not " + format_shape(reader.shape()));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(reader.shape()[0]) * reader.row_bytes());
  reader.read(bytes);
  reader.expect_end();
  std::vector<std::int64_t> labels(static_cast<std::size_t>(reader.shape()[0]));
  switch (reader.dtype()) {
    case DType::u8:
      widen<std::uint8_t>(bytes, labels);
      break;
    case DType::i8:
      widen<std::int8_t>(bytes, labels);
      break;
    default:
      widen<std::int32_t>(bytes, labels);
  }
  return labels;
}

class IdxSource final : public ExampleSource {
 public:
  IdxSource(fs::path images, fs::path labels)
      : paths_{std::move(images), std::move(labels)}, images_(paths_[0]), labels_(read_labels(paths_[1])) {
    if (std::cmp_equal(labels_.size(), images_.shape()[0])) return;
    throw DataError(paths_[0].string() + " and " + paths_[1].string() + " differ in length",
                    std::to_string(images_.shape()[0]) + " images and " + std::to_string(labels_.size()) + " labels");
  }

  void describe(DatasetSpec& spec) const override {
    spec.num_examples = images_.shape()[0];
    spec.dtype = images_.dtype();
    spec.example_shape.assign(images_.shape().begin() + 1, images_.shape().end());
    spec.normalisation = {.scale = spec.dtype == DType::u8 ? 1.0F / 255.0F : 1.0F, .mean = {}, .std = {}};
    if (spec.num_classes == 0) spec.num_classes = *std::max_element(labels_.begin(), labels_.end()) + 1;
  }
  [[nodiscard]] std::vector<std::string> fingerprint() const override {
    return {"idx", file_fingerprint(paths_[0]), file_fingerprint(paths_[1])};
  }

  void read(std::int64_t count, ExampleBlock& block) override {
    const auto rows = static_cast<std::size_t>(count);
    const std::size_t before = block.x.size();
    block.x.resize(before + rows * images_.row_bytes());
    images_.read(std::span(block.x).subspan(before));
    const auto labels = std::as_bytes(std::span(labels_).subspan(done_, rows));
    block.y.insert(block.y.end(), labels.begin(), labels.end());
    block.count += count;
    done_ += rows;
  }
  void expect_end() override { images_.expect_end(); }

 private:
  std::array<fs::path, 2> paths_;
  IdxReader images_;
  std::vector<std::int64_t> labels_;
  std::size_t done_ = 0;
};

fs::path find_idx(const fs::path& folder, const std::string& name) {
  for (const char* suffix : {".gz", ""}) {
    const fs::path path = folder / (name + suffix);
    if (fs::exists(fs::symlink_status(path))) return path;
  }
  throw DataError("no " + name + "[.gz] in " + folder.string(), {},
                  "give the folder of the four Fashion-MNIST files with --from");
}

Import fashion_mnist_split(const FashionMnistImport& import, const std::string& split, const std::string& prefix,
                           PrivacyUnit unit) {
  ImportTarget target{.out = import.out, .spec = {}, .force = import.force};
  DatasetSpec& spec = target.spec;
  spec.name = split;
  spec.dataset_name = "fashion-mnist";
  spec.split = split;
  spec.privacy_unit = unit;
  spec.provenance = "Fashion-MNIST (Zalando SE, MIT licence), IDX files";
  spec.num_shards = import.num_shards;
  spec.num_classes = 10;
  spec.class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                      "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  const fs::path images = find_idx(import.from, prefix + "-images-idx3-ubyte");
  const fs::path labels = find_idx(import.from, prefix + "-labels-idx1-ubyte");
  return {open_idx(images, labels), target};
}

}  // namespace

std::unique_ptr<ExampleSource> open_idx(const fs::path& images, const fs::path& labels) {
  return std::make_unique<IdxSource>(images, labels);
}

std::vector<fs::path> import_fashion_mnist(const FashionMnistImport& import, const ImportProgress& progress) {
  Import train = fashion_mnist_split(import, "train", "train", PrivacyUnit::example);
  Import test = fashion_mnist_split(import, "test", "t10k", PrivacyUnit::public_data);
  const std::int64_t total = train.num_examples() + test.num_examples();
  train.write([&](std::int64_t done, std::int64_t) {
    if (progress) progress(done, total);
  });
  test.write([&](std::int64_t done, std::int64_t) {
    if (progress) progress(train.num_examples() + done, total);
  });
  return {train.finish(), test.finish()};
}

}  // namespace ripieno::io
