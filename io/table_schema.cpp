#include <algorithm>
#include <array>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/table_schema.hpp>
#include <set>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;
using Kind = TableColumn::Kind;

const std::vector<std::string> k_kinds{"number", "category", "label", "target", "id", "ignore"};

template <class T>
std::optional<T> optional_value(const Json& json, const char* key, const std::string& where) {
  if (!json.contains(key)) return std::nullopt;
  return json_value<T>(json, key, where);
}

void check_keys(const Json& json, const std::string& where) {
  static const std::set<std::string> k_known{"name", "type", "values", "classes", "missing", "mean", "std"};
  for (const auto& [key, value] : json.items()) {
    if (!k_known.contains(key)) throw DataError(where + ": unknown key '" + key + "'");
  }
}

TableColumn parse_column(const Json& json, const std::string& where) {
  TableColumn column;
  column.name = json_value<std::string>(json, "name", where);
  check_keys(json, where);
  const auto type = json_value<std::string>(json, "type", where);
  const auto kind = std::find(k_kinds.begin(), k_kinds.end(), type);
  if (kind == k_kinds.end()) throw DataError(where + ": unknown type '" + type + "'", {}, "use " + join(k_kinds));
  column.kind = static_cast<Kind>(kind - k_kinds.begin());
  column.values = optional_value<std::vector<std::string>>(json, "values", where).value_or(std::vector<std::string>());
  column.classes = optional_value<std::int64_t>(json, "classes", where);
  column.missing = optional_value<float>(json, "missing", where);
  column.mean = optional_value<float>(json, "mean", where).value_or(0.0F);
  column.std = optional_value<float>(json, "std", where).value_or(1.0F);
  if (!std::isfinite(column.mean) || !std::isfinite(column.std) || !(column.std > 0)) {
    throw DataError(where + ": unusable mean or std", "both finite, std positive");
  }
  const bool listed = !column.values.empty();
  const std::set<std::string> different(column.values.begin(), column.values.end());
  if (different.size() != column.values.size()) throw DataError(where + ": a value is listed twice");
  if (column.kind == Kind::category && !listed) throw DataError(where + ": a category without values");
  if (column.kind == Kind::label && listed == column.classes.has_value()) {
    throw DataError(where + ": the classes are not clear", "either values or classes is expected");
  }
  return column;
}

}  // namespace

std::int64_t TableSchema::num_features() const {
  std::int64_t features = 0;
  for (const TableColumn& column : columns) {
    if (column.kind == Kind::number) ++features;
    if (column.kind == Kind::category) features += static_cast<std::int64_t>(column.values.size());
  }
  return features;
}

std::int64_t TableSchema::num_targets() const {
  return std::count_if(columns.begin(), columns.end(), [](const auto& column) { return column.kind == Kind::target; });
}

const TableColumn* TableSchema::find(Kind kind) const {
  const auto at = std::find_if(columns.begin(), columns.end(), [&](const auto& column) { return column.kind == kind; });
  return at == columns.end() ? nullptr : &*at;
}

void TableSchema::describe(DatasetSpec& spec) const {
  spec.dtype = DType::f32;
  spec.example_shape = {num_features()};
  spec.normalisation = {};
  for (const TableColumn& column : columns) {
    const std::size_t features = column.kind == Kind::number     ? 1
                                 : column.kind == Kind::category ? column.values.size()
                                                                 : 0;
    spec.normalisation.mean.insert(spec.normalisation.mean.end(), features, column.mean);
    spec.normalisation.std.insert(spec.normalisation.std.end(), features, column.std);
  }
  spec.ids = find(Kind::id) != nullptr;
  if (const TableColumn* label = find(Kind::label)) {
    spec.class_names = label->values;
    spec.num_classes = label->classes.value_or(static_cast<std::int64_t>(label->values.size()));
    return;
  }
  spec.label_dtype = DType::f32;
  if (num_targets() > 1) spec.label_shape = {num_targets()};
  spec.num_classes = 0;
}

TableSchema read_table_schema(const fs::path& path) {
  static_cast<void>(open_regular_file(path));
  const Json json = read_json(path);
  const Json columns = json_value<Json>(json, "columns", path.string());
  if (!columns.is_array()) throw DataError(path.string() + ": columns is not a list");
  TableSchema schema;
  std::set<std::string> names;
  for (const Json& column : columns) {
    schema.columns.push_back(parse_column(column, path.string() + ": column " + std::to_string(names.size() + 1)));
    if (!names.insert(schema.columns.back().name).second) {
      throw DataError(path.string() + ": column '" + schema.columns.back().name + "' is listed twice");
    }
  }
  const auto count = [&](Kind kind) {
    return std::count_if(schema.columns.begin(), schema.columns.end(), [&](const auto& c) { return c.kind == kind; });
  };
  if (schema.num_features() == 0) throw DataError(path.string() + ": no feature", "no column is a number or category");
  if (count(Kind::label) > 1 || count(Kind::id) > 1) throw DataError(path.string() + ": two labels, or two ids");
  if ((count(Kind::label) == 1) == (schema.num_targets() > 0)) {
    throw DataError(path.string() + ": what to predict is not clear", "one label, or targets, are expected");
  }
  return schema;
}

}  // namespace ripieno::io
