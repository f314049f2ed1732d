#include <algorithm>
#include <fstream>
#include <iterator>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>

namespace ripieno {

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError("cannot read " + path.string(), "no such file, or no permission");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, text.size()));
    const auto line = std::count(text.begin(), end, '\n') + 1;
    const auto column = std::distance(std::find(std::make_reverse_iterator(end), text.rend(), '\n').base(), end);
    throw DataError("cannot parse " + path.string(),
                    "JSON fault at line " + std::to_string(line) + ", column " + std::to_string(column));
  }
}

namespace detail {

void throw_json_key(const std::string& where, const char* key, const char* why) {
  throw DataError(where + ": key '" + key + "' is unusable", why);
}

}  // namespace detail
}  // namespace ripieno
