#pragma once

#include <filesystem>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/io/file.hpp>

namespace ripieno {

enum class Visibility {
  published,      ///< mode 0644: anyone may read it
  operator_only,  ///< mode 0600: holds values that depend on private records (invariant P1)
};

/// A file of one JSON object a line. Move-only; a default-made one swallows what it is given.
class JsonLines {
 public:
  JsonLines() = default;
  /// Opens `path` at its end, or creates it. DataError when that is not possible.
  JsonLines(const std::filesystem::path& path, Visibility visibility);

  [[nodiscard]] bool is_open() const noexcept { return fd_.get() >= 0; }
  /// Appends the object as one line, in one write. DataError when the disk refuses.
  void write(const Json& object);

 private:
  io::UniqueFd fd_;
  std::filesystem::path path_;
};

}  // namespace ripieno
