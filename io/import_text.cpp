#include <algorithm>
#include <limits>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/class_folders.hpp>
#include <ripieno/io/import_text.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t k_bytes = 256;
constexpr std::uint64_t k_buffer_bytes = 1 << 18;
constexpr std::int64_t k_max_sequence_bytes = std::int64_t{1} << 30;

/// Cuts one file into examples, front to back.
class TextReader {
 public:
  TextReader(const fs::path& path, const TextImport& import)
      : path_(path), import_(import), file_(open_regular_file(path)) {}

  /// The bytes of the next example (a window with one byte more); false at the end.
  bool next(std::vector<std::byte>& bytes) {
    switch (import_.unit) {
      case TextUnit::line:
        return next_line(bytes);
      case TextUnit::file:
        return next_file(bytes);
      case TextUnit::window:
        break;
    }
    return next_window(bytes);
  }

 private:
  bool next_line(std::vector<std::byte>& bytes) {
    bytes.clear();
    while (fill()) {
      const auto begin = buffer_.begin() + static_cast<std::ptrdiff_t>(position_);
      const auto end = std::find(begin, buffer_.end(), std::byte{'\n'});
      keep(bytes, {begin, end});
      position_ = static_cast<std::size_t>(end - buffer_.begin());
      if (end == buffer_.end()) continue;
      ++position_;
      if (finish_line(bytes)) return true;
    }
    return finish_line(bytes);
  }

  // False for an empty line, which is no example.
  static bool finish_line(std::vector<std::byte>& bytes) {
    if (!bytes.empty() && bytes.back() == std::byte{'\r'}) bytes.pop_back();
    return !bytes.empty();
  }

  bool next_file(std::vector<std::byte>& bytes) {
    bytes.clear();
    while (fill()) {
      keep(bytes, std::span(buffer_).subspan(position_));
      position_ = buffer_.size();
    }
    return !bytes.empty();
  }

  bool next_window(std::vector<std::byte>& bytes) {
    const auto length = static_cast<std::uint64_t>(import_.length);
    if (static_cast<std::uint64_t>(file_.identity.bytes) < file_position_ + length + 1) return false;
    bytes.resize(length + 1);
    read_at(file_.fd.get(), file_position_, bytes, path_);
    file_position_ += length;  // the last byte is the first of the next window
    return true;
  }

  void keep(std::vector<std::byte>& bytes, std::span<const std::byte> more) const {
    const auto most = static_cast<std::size_t>(import_.length > 0 ? import_.length : k_max_sequence_bytes);
    if (bytes.size() + more.size() > most && import_.length == 0) {
      throw DataError(path_.string() + " holds an example of over 1 GB", {}, "cut examples with --length");
    }
    more = more.first(std::min(more.size(), most - std::min(most, bytes.size())));
    bytes.insert(bytes.end(), more.begin(), more.end());
  }

  // False at the end of the file.
  bool fill() {
    if (position_ < buffer_.size()) return true;
    const std::uint64_t left = static_cast<std::uint64_t>(file_.identity.bytes) - file_position_;
    buffer_.resize(static_cast<std::size_t>(std::min(left, k_buffer_bytes)));
    position_ = 0;
    read_at(file_.fd.get(), file_position_, buffer_, path_);
    file_position_ += buffer_.size();
    return !buffer_.empty();
  }

  fs::path path_;
  const TextImport& import_;
  OpenFile file_;
  std::vector<std::byte> buffer_;
  std::size_t position_ = 0;
  std::uint64_t file_position_ = 0;
};

class TextSource final : public ExampleSource {
 public:
  explicit TextSource(const TextImport& import) : import_(import) {
    if (import.unit == TextUnit::window && import.class_folders) throw UsageError("windows have no class");
    if (import.length < (import.unit == TextUnit::window ? 1 : 0))
      throw UsageError("windows of no length", {}, "give --length");
    if (import.class_folders) {
      found_ = find_class_folders(import.root, {});
    } else {
      for (fs::path& path : find_files(import.root)) found_.files.push_back({std::move(path), 0});
    }
    std::vector<std::byte> bytes;
    for (const ClassFolders::File& file : found_.files) {
      TextReader reader(file.path, import_);
      while (reader.next(bytes)) ++num_examples_;
    }
    if (num_examples_ == 0) throw DataError("no text in " + import.root.string(), "every file is too short or empty");
  }

  void describe(DatasetSpec& spec) const override {
    spec.num_examples = num_examples_;
    spec.dtype = DType::u8;
    spec.vocab_size = k_bytes + 1;
    spec.pad_id = k_bytes;
    spec.tokenizer = "bytes";
    spec.sequences = import_.unit != TextUnit::window;
    spec.labels = import_.class_folders || !spec.sequences;
    if (import_.class_folders) {
      spec.class_names = found_.classes;
      spec.num_classes = static_cast<std::int64_t>(found_.classes.size());
    }
    if (spec.sequences) return;
    spec.example_shape = {import_.length};
    spec.label_dtype = DType::i32;
    spec.label_shape = {import_.length};
    spec.num_classes = k_bytes + 1;
  }
  [[nodiscard]] std::vector<std::string> fingerprint() const override {
    std::vector<fs::path> paths;
    for (const ClassFolders::File& file : found_.files) paths.push_back(file.path);
    return {"text", files_fingerprint(paths), std::to_string(static_cast<int>(import_.unit)),
            std::to_string(import_.length), import_.class_folders ? "classes" : ""};
  }

  void read(std::int64_t count, ExampleBlock& block) override {
    std::vector<std::byte> bytes;
    const std::int64_t wanted = block.count + count;
    while (block.count < wanted && open_next()) {
      if (open_->next(bytes)) {
        append(bytes, block);
      } else {
        open_.reset();
      }
      if (block.x.size() > k_block_bytes) return;
    }
    if (block.count == 0) throw DataError(import_.root.string() + " changed while in use", "examples are missing");
  }

 private:
  static constexpr std::size_t k_block_bytes = 8 << 20;

  bool open_next() {
    if (open_) return true;
    if (next_file_ == found_.files.size()) return false;
    open_.emplace(found_.files[next_file_++].path, import_);
    return true;
  }

  void append(std::span<const std::byte> bytes, ExampleBlock& block) const {
    ++block.count;
    if (import_.unit == TextUnit::window) {
      block.x.insert(block.x.end(), bytes.begin(), bytes.end() - 1);
      for (const std::byte next : bytes.subspan(1)) append_label(static_cast<std::int32_t>(next), block);
      return;
    }
    block.x.insert(block.x.end(), bytes.begin(), bytes.end());
    block.lengths.push_back(static_cast<std::int64_t>(bytes.size()));
    if (import_.class_folders) append_label(found_.files[next_file_ - 1].label, block);
  }

  template <class Label>
  static void append_label(const Label& label, ExampleBlock& block) {
    const auto bytes = std::as_bytes(std::span(&label, 1));
    block.y.insert(block.y.end(), bytes.begin(), bytes.end());
  }

  TextImport import_;
  ClassFolders found_;
  std::int64_t num_examples_ = 0;
  std::size_t next_file_ = 0;
  std::optional<TextReader> open_;
};

}  // namespace

std::unique_ptr<ExampleSource> open_text(const TextImport& import) { return std::make_unique<TextSource>(import); }

}  // namespace ripieno::io
