#include <algorithm>
#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/foreign_array.hpp>
#include <ripieno/io/import_hdf5.hpp>
#include <ripieno/io/import_npy.hpp>
#include <ripieno/io/npy.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

std::string name_of(const NpyReader& reader) { return reader.path().string(); }
std::string name_of(const ForeignArray& array) { return array.path().string() + ":" + array.name(); }

/// Two arrays, of a reader of rows: NpyReader or ForeignArray.
template <class Array>
class ArraySource final : public ExampleSource {
 public:
  ArraySource(Array examples, Array labels) : x_(std::move(examples)), y_(std::move(labels)) {
    if (x_.shape().front() == y_.shape().front()) return;
    throw DataError(
        name_of(x_) + " and " + name_of(y_) + " differ in length",
        std::to_string(x_.shape().front()) + " examples and " + std::to_string(y_.shape().front()) + " labels");
  }

  void describe(DatasetSpec& spec) const override {
    spec.num_examples = x_.shape().front();
    spec.dtype = x_.type().stored();
    spec.example_shape = row_shape(x_);
    if (spec.normalisation == Normalisation{})
      spec.normalisation.scale = spec.dtype == DType::u8 ? 1.0F / 255.0F : 1.0F;
    spec.label_dtype = label_type();
    spec.label_shape = row_shape(y_);
    if (spec.num_classes == 0 && spec.label_shape.empty() && spec.label_dtype == DType::i64) {
      spec.num_classes = largest_label() + 1;
    }
  }
  [[nodiscard]] std::vector<std::string> fingerprint() const override {
    return {"arrays", name_of(x_), file_fingerprint(x_.path()), name_of(y_), file_fingerprint(y_.path())};
  }

  void skip(std::int64_t count) override { done_ += count; }
  void read(std::int64_t count, ExampleBlock& block) override {
    read_into(x_, count, x_.type().stored(), block.x);
    read_into(y_, count, label_type(), block.y);
    block.count += count;
    done_ += count;
  }

 private:
  static std::vector<std::int64_t> row_shape(const Array& array) {
    return {array.shape().begin() + 1, array.shape().end()};
  }
  [[nodiscard]] DType label_type() const {
    return y_.type().kind == ForeignType::Kind::floating ? DType::f32 : DType::i64;
  }

  void read_into(const Array& reader, std::int64_t count, DType dtype, std::vector<std::byte>& out) const {
    const std::size_t before = out.size();
    out.resize(before + static_cast<std::size_t>(count * reader.row_elements()) * item_size(dtype));
    reader.read_rows(done_, count, dtype, std::span(out).subspan(before));
  }

  [[nodiscard]] std::int64_t largest_label() const {
    constexpr std::int64_t k_block = 1 << 16;
    std::int64_t largest = 0;
    std::vector<std::int64_t> block;
    for (std::int64_t first = 0; first < y_.shape().front(); first += k_block) {
      block.resize(static_cast<std::size_t>(std::min(k_block, y_.shape().front() - first)));
      y_.read_rows(first, static_cast<std::int64_t>(block.size()), DType::i64,
                   std::as_writable_bytes(std::span(block)));
      largest = std::max(largest, *std::max_element(block.begin(), block.end()));
    }
    return largest;
  }

  Array x_, y_;
  std::int64_t done_ = 0;
};

}  // namespace

std::unique_ptr<ExampleSource> open_npy(const fs::path& examples, const fs::path& labels) {
  return std::make_unique<ArraySource<NpyReader>>(NpyReader(examples), NpyReader(labels));
}

std::unique_ptr<ExampleSource> open_hdf5(const fs::path& file, const std::string& examples, const std::string& labels) {
  const std::array<std::string, 2> names{examples, labels};
  try_foreign_arrays(file, names);
  return std::make_unique<ArraySource<ForeignArray>>(ForeignArray(file, examples), ForeignArray(file, labels));
}

}  // namespace ripieno::io
