#include <algorithm>
#include <charconv>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/delimited_text.hpp>
#include <ripieno/io/import_table.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;
using Kind = TableColumn::Kind;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

template <class T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class T>
void put(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// One file, whose columns are found by name.
class TableFile {
 public:
  TableFile(const fs::path& path, char delimiter, const TableSchema& schema)
      : reader_(path, delimiter), schema_(schema), positions_(schema.columns.size()) {
    std::vector<std::string> names;
    reader_.next(names);
    for (std::string& name : names) name = std::string(trimmed(name));
    for (const std::string& name : names) {
      const auto known = [&](const TableColumn& column) { return column.name == name; };
      if (std::any_of(schema.columns.begin(), schema.columns.end(), known)) continue;
      throw DataError(path.string() + ": column '" + name + "' is not in the schema", {},
                      "list it there, as \"ignore\" if it is of no use");
    }
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      const auto at = std::find(names.begin(), names.end(), schema.columns[i].name);
      if (at == names.end()) throw DataError(path.string() + ": no column '" + schema.columns[i].name + "'");
      positions_[i] = static_cast<std::size_t>(at - names.begin());
    }
    num_fields_ = names.size();
  }

  /// False at the end of the file.
  bool next(std::vector<std::string>& fields) {
    if (!reader_.next(fields)) return false;
    if (fields.size() == num_fields_) return true;
    throw DataError(place() + " has " + std::to_string(fields.size()) + " fields",
                    "the line of column names has " + std::to_string(num_fields_));
  }

  void append(const std::vector<std::string>& fields, ExampleBlock& block) const {
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      const TableColumn& column = schema_.columns[i];
      if (column.kind != Kind::ignore) append_field(column, trimmed(fields[positions_[i]]), block);
    }
    ++block.count;
  }

 private:
  [[nodiscard]] std::string place() const {
    return reader_.path().string() + ": line " + std::to_string(reader_.line());
  }
  [[noreturn]] void fail(const TableColumn& column, const std::string& why) const {
    throw DataError(place() + ": column '" + column.name + "' " + why, {}, "correct the file, or the schema");
  }

  void append_field(const TableColumn& column, std::string_view text, ExampleBlock& block) const {
    switch (column.kind) {
      case Kind::number:
        put(block.x, number(column, text));
        break;
      case Kind::category: {
        const std::size_t value = value_index(column, text);
        for (std::size_t i = 0; i < column.values.size(); ++i) put(block.x, i == value ? 1.0F : 0.0F);
        break;
      }
      case Kind::label:
        put(block.y, class_index(column, text));
        break;
      case Kind::target:
        put(block.y, number(column, text));
        break;
      case Kind::id: {
        const auto id = parse<std::uint64_t>(text);
        if (!id) fail(column, "is not an unsigned integer");
        block.ids.push_back(*id);
        break;
      }
      case Kind::ignore:
        break;
    }
  }

  [[nodiscard]] float number(const TableColumn& column, std::string_view text) const {
    if (text.empty() && column.missing) return *column.missing;
    if (text.empty()) fail(column, "is empty, and the schema gives no \"missing\" for it");
    const auto value = parse<float>(text);
    if (!value) fail(column, "is not a number");
    return *value;
  }

  [[nodiscard]] std::size_t value_index(const TableColumn& column, std::string_view text) const {
    const auto at = std::find(column.values.begin(), column.values.end(), text);
    if (at == column.values.end()) fail(column, "holds a value that the schema does not list");
    return static_cast<std::size_t>(at - column.values.begin());
  }

  [[nodiscard]] std::int64_t class_index(const TableColumn& column, std::string_view text) const {
    if (!column.classes) return static_cast<std::int64_t>(value_index(column, text));
    const auto label = parse<std::int64_t>(text);
    if (!label || *label < 0 || *label >= *column.classes) {
      fail(column, "is not a class in [0, " + std::to_string(*column.classes) + ")");
    }
    return *label;
  }

  DelimitedReader reader_;
  const TableSchema& schema_;
  std::vector<std::size_t> positions_;
  std::size_t num_fields_ = 0;
};

class TableSource final : public ExampleSource {
 public:
  TableSource(std::vector<fs::path> files, char delimiter, const fs::path& schema)
      : files_(std::move(files)), delimiter_(delimiter), schema_path_(schema), schema_(read_table_schema(schema)) {
    std::vector<std::string> fields;
    for (const fs::path& path : files_) {
      TableFile file(path, delimiter_, schema_);
      while (file.next(fields)) ++num_examples_;
    }
    if (num_examples_ == 0) throw DataError("no record in " + files_.front().string());
  }

  void describe(DatasetSpec& spec) const override {
    schema_.describe(spec);
    spec.num_examples = num_examples_;
  }
  [[nodiscard]] std::vector<std::string> fingerprint() const override {
    std::vector<std::string> texts{"table", std::string(1, delimiter_), file_fingerprint(schema_path_)};
    for (const fs::path& path : files_) texts.push_back(file_fingerprint(path));
    return texts;
  }

  void read(std::int64_t count, ExampleBlock& block) override {
    std::vector<std::string> fields;
    const std::int64_t wanted = block.count + count;
    while (block.count < wanted && open_next()) {
      if (open_->next(fields)) {
        open_->append(fields, block);
      } else {
        open_.reset();
      }
    }
    if (block.count == 0) throw DataError(files_.back().string() + " changed while in use", "records are missing");
  }

 private:
  // False when the last file is done.
  bool open_next() {
    if (open_) return true;
    if (next_file_ == files_.size()) return false;
    open_.emplace(files_[next_file_++], delimiter_, schema_);
    return true;
  }

  std::vector<fs::path> files_;
  char delimiter_;
  fs::path schema_path_;
  TableSchema schema_;
  std::int64_t num_examples_ = 0;
  std::size_t next_file_ = 0;
  std::optional<TableFile> open_;
};

}  // namespace

std::unique_ptr<ExampleSource> open_table(std::vector<fs::path> files, char delimiter, const fs::path& schema) {
  return std::make_unique<TableSource>(std::move(files), delimiter, schema);
}

}  // namespace ripieno::io
