#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace ripieno {

/// Keys keep the order in which they were inserted, so that written files read as intended and hash the same.
using Json = nlohmann::ordered_json;

/// The parsed file. DataError names the file and the line and column of a fault.
[[nodiscard]] Json read_json(const std::filesystem::path& path);
/// `object[key]` as T. DataError names `where` and the key when it is missing or of another type.
template <class T>
[[nodiscard]] T json_value(const Json& object, const char* key, const std::string& where);

namespace detail {
[[noreturn]] void throw_json_key(const std::string& where, const char* key, const char* why);
}

template <class T>
T json_value(const Json& object, const char* key, const std::string& where) {
  if (!object.is_object() || !object.contains(key)) detail::throw_json_key(where, key, "missing");
  try {
    return object.at(key).get<T>();
  } catch (const nlohmann::json::exception& e) {
    detail::throw_json_key(where, key, e.what());
  }
}

}  // namespace ripieno
