#include <fstream>
#include <iterator>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/ledger/canaries.hpp>

namespace ripieno::ledger {
namespace {

constexpr std::string_view k_header = "included,guess";

/// The text up to the next line break, which is taken off `text` with it; a carriage return is no part of a line.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

accounting::AuditResult count_canaries(std::string_view text, const std::string& name) {
  if (take_line(text) != k_header) {
    throw DataError(name + " line 1: no list of canaries", "the first line must be '" + std::string(k_header) + "'");
  }
  accounting::AuditResult result;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const bool has_form = line.size() >= 2 && line.size() <= 3 && (line[0] == '0' || line[0] == '1') && line[1] == ',';
    const bool guesses = line.size() == 3;
    if (!has_form || (guesses && line[2] != '0' && line[2] != '1')) {
      throw DataError(name + " line " + std::to_string(result.canaries + 2) + ": not a canary",
                      "must be 0 or 1, a comma, and 0, 1 or nothing");
    }
    ++result.canaries;
    if (!guesses) continue;
    ++result.guesses;
    if (line[0] == line[2]) ++result.correct;
  }
  return result;
}

accounting::AuditResult read_canaries(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError("cannot read " + path.string(), "no such file, or no permission");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return count_canaries(text, path.string());
}

}  // namespace ripieno::ledger
