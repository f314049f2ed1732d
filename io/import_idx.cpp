#include <algorithm>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/idx.hpp>
#include <ripieno/io/import_idx.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_block_bytes = 4 << 20;

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

// An import whose data are all written, but not yet in place.
class PreparedImport {
 public:
  explicit PreparedImport(const IdxImport& import)
      : images_(import.images), labels_(read_labels(import.labels)), writer_(import.out, complete(import)) {}

  [[nodiscard]] std::int64_t num_examples() const noexcept { return images_.shape()[0]; }

  // on_rows(n): n more examples are written.
  template <class OnRows>
  void write(OnRows on_rows) {
    const std::size_t rows_a_block = std::max<std::size_t>(1, k_block_bytes / images_.row_bytes());
    std::vector<std::byte> block;
    for (std::size_t done = 0; done < labels_.size();) {
      const std::size_t rows = std::min(rows_a_block, labels_.size() - done);
      block.resize(rows * images_.row_bytes());
      images_.read(block);
      writer_.append(block, std::span(labels_).subspan(done, rows));
      done += rows;
      on_rows(static_cast<std::int64_t>(rows));
    }
    images_.expect_end();
  }

  fs::path finish() { return writer_.finish(); }

 private:
  [[nodiscard]] DatasetSpec complete(const IdxImport& import) const {
    if (std::cmp_not_equal(labels_.size(), num_examples())) {
      throw DataError(import.images.string() + " and " + import.labels.string() + " differ in length",
                      std::to_string(num_examples()) + " images and " + std::to_string(labels_.size()) + " labels");
    }
    DatasetSpec spec = import.spec;
    spec.num_examples = num_examples();
    spec.dtype = images_.dtype();
    spec.example_shape.assign(images_.shape().begin() + 1, images_.shape().end());
    spec.normalisation = {.scale = spec.dtype == DType::u8 ? 1.0F / 255.0F : 1.0F, .mean = {}, .std = {}};
    if (spec.num_classes == 0) spec.num_classes = *std::max_element(labels_.begin(), labels_.end()) + 1;
    return spec;
  }

  IdxReader images_;
  std::vector<std::int64_t> labels_;
  DatasetWriter writer_;
};

fs::path find_idx(const fs::path& folder, const std::string& name) {
  for (const char* suffix : {".gz", ""}) {
    const fs::path path = folder / (name + suffix);
    if (fs::exists(fs::symlink_status(path))) return path;
  }
  throw DataError("no " + name + "[.gz] in " + folder.string(), {},
                  "give the folder of the four Fashion-MNIST files with --from");
}

IdxImport fashion_mnist_split(const FashionMnistImport& import, const std::string& split, const std::string& prefix,
                              PrivacyUnit unit) {
  DatasetSpec spec;
  spec.name = split;
  spec.dataset_name = "fashion-mnist";
  spec.split = split;
  spec.privacy_unit = unit;
  spec.provenance = "Fashion-MNIST (Zalando SE, MIT licence), IDX files";
  spec.num_shards = import.num_shards;
  spec.num_classes = 10;
  spec.class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                      "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  return {.images = find_idx(import.from, prefix + "-images-idx3-ubyte"),
          .labels = find_idx(import.from, prefix + "-labels-idx1-ubyte"),
          .out = import.out,
          .spec = std::move(spec)};
}

}  // namespace

fs::path import_idx(const IdxImport& import, const ImportProgress& progress) {
  PreparedImport prepared(import);
  std::int64_t done = 0;
  prepared.write([&](std::int64_t rows) {
    done += rows;
    if (progress) progress(done, prepared.num_examples());
  });
  return prepared.finish();
}

std::vector<fs::path> import_fashion_mnist(const FashionMnistImport& import, const ImportProgress& progress) {
  PreparedImport train(fashion_mnist_split(import, "train", "train", PrivacyUnit::example));
  PreparedImport test(fashion_mnist_split(import, "test", "t10k", PrivacyUnit::public_data));
  const std::int64_t total = train.num_examples() + test.num_examples();
  std::int64_t done = 0;
  const auto on_rows = [&](std::int64_t rows) {
    done += rows;
    if (progress) progress(done, total);
  };
  train.write(on_rows);
  test.write(on_rows);
  return {train.finish(), test.finish()};
}

}  // namespace ripieno::io
