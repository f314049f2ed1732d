#include <algorithm>
#include <cctype>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/class_folders.hpp>
#include <ripieno/io/example_source.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::string lower_extension(const fs::path& path) {
  std::string text = path.extension().string();
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::vector<fs::path> find_files(const fs::path& root) {
  std::error_code error;
  if (!fs::is_directory(root, error)) {
    static_cast<void>(open_regular_file(root));
    return {root};
  }
  std::vector<fs::path> files;
  for (auto at = fs::recursive_directory_iterator(root, error); at != fs::recursive_directory_iterator();
       at.increment(error)) {
    if (is_hidden(at->path())) {
      at.disable_recursion_pending();
    } else if (!at->is_directory(error)) {
      files.push_back(at->path());
    }
    if (error) break;
  }
  if (error) throw DataError("cannot list " + root.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

ClassFolders find_class_folders(const fs::path& root, const std::vector<std::string>& extensions) {
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) throw DataError(root.string() + " is not a folder");
  ClassFolders found;
  std::size_t left_out = 0;
  for (fs::path& path : find_files(root)) {
    const fs::path below = path.lexically_relative(root);
    const bool fits = extensions.empty() ||
                      std::find(extensions.begin(), extensions.end(), lower_extension(path)) != extensions.end();
    if (!fits) {
      ++left_out;
      continue;
    }
    if (std::distance(below.begin(), below.end()) < 2) {
      throw DataError(path.string() + " belongs to no class", "each folder of " + root.string() + " is a class",
                      "move it into the folder of its class");
    }
    const std::string name = below.begin()->string();
    if (found.classes.empty() || found.classes.back() != name) found.classes.push_back(name);
    found.files.push_back({std::move(path), static_cast<std::int64_t>(found.classes.size()) - 1});
  }
  if (found.files.empty())
    throw DataError("nothing to import in " + root.string(), "files are looked for in its folders");
  if (left_out > 0)
    log::warning(std::to_string(left_out) + " files in " + root.string() + " are left out: not " + join(extensions));
  return found;
}

std::string files_fingerprint(const std::vector<fs::path>& files) {
  Sha256 hash;
  for (const fs::path& path : files) hash.update(file_fingerprint(path)).update("\n");
  return to_hex(hash.finish());
}

}  // namespace ripieno::io
