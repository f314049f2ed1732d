#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno::cli {

/// One `key = value` line of an INI file.
struct IniEntry {
  std::string section;  ///< "" before the first `[section]`
  std::string key;
  std::string value;
  std::size_t line = 0;  ///< counted from 1
};

/// The entries in order. Blank lines and lines that begin with # or ; are skipped, blanks around keys and values
/// dropped; a value in double quotes keeps its blanks. UsageError names `name` and the line of anything else.
[[nodiscard]] std::vector<IniEntry> read_ini(std::istream& in, const std::string& name);
[[nodiscard]] std::vector<IniEntry> read_ini(const std::filesystem::path& path);

/// `value` as it must stand in an INI file to be read back the same.
[[nodiscard]] std::string ini_value(std::string_view value);

}  // namespace ripieno::cli
