#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ripieno/io/dataset_writer.hpp>
#include <string>
#include <vector>

namespace ripieno::io {

/// What one column of a table is.
struct TableColumn {
  enum class Kind {
    number,    ///< one feature
    category,  ///< one feature a value: one where it is the value, else zero
    label,     ///< the class
    target,    ///< a number to predict; several make a label of that many numbers
    id,        ///< an unsigned number that names the record, or the person behind it
    ignore,
  };
  std::string name;
  Kind kind = Kind::ignore;
  std::vector<std::string> values;      ///< of category and label: all that there are
  std::optional<std::int64_t> classes;  ///< of a label that is written as 0 ... classes - 1
  std::optional<float> missing;         ///< of a number: stands for an empty field
  float mean = 0, std = 1;              ///< of a number: the reader delivers (x - mean) / std
};

/// The columns of a table, declared: nothing is learnt from the records, whose values are private. A JSON file
///
///     {"columns": [{"name": "age", "type": "number", "mean": 38, "std": 13, "missing": 0},
///                  {"name": "work", "type": "category", "values": ["private", "state"]},
///                  {"name": "income", "type": "label", "values": ["<=50K", ">50K"]},
///                  {"name": "serial", "type": "id"}, {"name": "note", "type": "ignore"}]}
struct TableSchema {
  std::vector<TableColumn> columns;

  [[nodiscard]] std::int64_t num_features() const;
  [[nodiscard]] std::int64_t num_targets() const;
  [[nodiscard]] const TableColumn* find(TableColumn::Kind kind) const;
  /// Types, shapes, classes and normalisation of what the table becomes.
  void describe(DatasetSpec& spec) const;
};

/// DataError names the file, the column and what is wrong with it: there must be a feature, and either one label or
/// targets.
[[nodiscard]] TableSchema read_table_schema(const std::filesystem::path& path);

}  // namespace ripieno::io
