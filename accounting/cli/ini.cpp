#include <ripieno/accounting/cli/ini.hpp>

#include <fstream>
#include <ripieno/accounting/base/error.hpp>

namespace ripieno::cli {
namespace {

constexpr std::string_view k_blanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(k_blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(k_blanks) - first + 1);
}

bool is_quoted(std::string_view text) { return text.size() >= 2 && text.front() == '"' && text.back() == '"'; }

}  // namespace

std::vector<IniEntry> read_ini(std::istream& in, const std::string& name) {
  std::vector<IniEntry> entries;
  std::string section;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string_view text = trimmed(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') continue;
    if (text.front() == '[' && text.back() == ']') {
      section = trimmed(text.substr(1, text.size() - 2));
      continue;
    }
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      throw UsageError(name + " line " + std::to_string(number) + " is not of the form 'key = value'");
    }
    std::string_view value = trimmed(text.substr(equals + 1));
    if (is_quoted(value)) value = value.substr(1, value.size() - 2);
    entries.push_back({section, std::string(trimmed(text.substr(0, equals))), std::string(value), number});
  }
  return entries;
}

std::vector<IniEntry> read_ini(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw UsageError("cannot read " + path.string(), "no such file, or no permission");
  return read_ini(file, path.string());
}

std::string ini_value(std::string_view value) {
  if (value.find('\n') != std::string_view::npos)
    throw UsageError("a value with a line break does not fit an INI file");
  if (trimmed(value) == value && !is_quoted(value)) return std::string(value);
  return '"' + std::string(value) + '"';
}

}  // namespace ripieno::cli
