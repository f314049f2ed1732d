#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ripieno::io {

/// Files sorted by the folder they lie in: ROOT/CLASS/…/FILE, classes numbered in name order.
struct ClassFolders {
  struct File {
    std::filesystem::path path;
    std::int64_t label = 0;
  };
  std::vector<std::string> classes;
  std::vector<File> files;  ///< in path order
};

/// The files below each folder of `root` whose extension, in lower case, is one of `extensions` (all when empty).
/// Hidden files are passed over; others that do not fit are counted in a warning. DataError when nothing is found, or a
/// file lies in `root` itself.
[[nodiscard]] ClassFolders find_class_folders(const std::filesystem::path& root,
                                              const std::vector<std::string>& extensions);

/// The files below `root`, or `root` itself if it is one, in path order; hidden ones are passed over.
[[nodiscard]] std::vector<std::filesystem::path> find_files(const std::filesystem::path& root);

/// One text for names, sizes and times of all files.
[[nodiscard]] std::string files_fingerprint(const std::vector<std::filesystem::path>& files);

}  // namespace ripieno::io
