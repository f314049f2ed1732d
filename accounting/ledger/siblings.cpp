#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/siblings.hpp>
#include <set>

namespace ripieno::ledger {
namespace {

namespace fs = std::filesystem;

/// The paths in a folder; none when it cannot be read.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    paths.push_back(entry->path());
  }
  return paths;
}

/// Files near `ledger` that may be ledgers, itself among them.
std::vector<fs::path> candidates(const fs::path& ledger) {
  const fs::path folder = ledger.parent_path();
  std::vector<fs::path> paths;
  for (const fs::path& path : entries(folder)) {
    if (path.extension() == ".jsonl") paths.push_back(path);
  }
  for (const fs::path& path : entries(folder.parent_path())) paths.push_back(path / ledger.filename());
  std::erase_if(paths, [](const fs::path& path) {
    std::error_code error;
    return !fs::is_regular_file(path, error);  // false for a pipe, which would wait for a writer
  });
  return paths;
}

/// Whether the file begins with the header of a ledger over `dataset_id`.
bool is_ledger_over(const fs::path& path, const std::string& dataset_id) {
  constexpr std::size_t k_longest_header = 4096;
  std::string start(k_longest_header, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(file.gcount()));
  const std::size_t end = start.find('\n');
  if (end == std::string::npos || end < k_hash_field_size) return false;
  const std::string line = start.substr(0, end);
  if (!stated_hash(line)) return false;
  try {
    return read_header(line.substr(0, end - k_hash_field_size), path.string()).dataset_id == dataset_id;
  } catch (const DataError&) {
    return false;
  }
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path result = fs::canonical(path, error);
  return error ? path : result;
}

}  // namespace

std::vector<std::string> warnings_about_siblings(const Analysis& analysis) {
  std::set<fs::path> known;
  for (const Ledger& ledger : analysis.ledgers) known.insert(resolved(ledger.name));
  const std::set<fs::path> given = known;
  std::vector<std::string> found;
  for (const fs::path& ledger : given) {
    for (const fs::path& path : candidates(ledger)) {
      const bool is_new = known.insert(resolved(path)).second;
      if (is_new && is_ledger_over(path, analysis.ledgers.front().header.dataset_id)) found.push_back(path.string());
    }
  }
  if (found.empty()) return {};
  std::ranges::sort(found);
  constexpr std::size_t k_named = 5;
  const std::size_t more = found.size() - std::min(found.size(), k_named);
  found.resize(found.size() - more);
  return {"nearby there " + std::string(found.size() + more == 1 ? "is another ledger" : "are other ledgers") +
          " over the same data, not counted here: " + join(found) +
          (more > 0 ? " and " + std::to_string(more) + " more" : "") +
          "; give them all to learn what the runs cost together"};
}

}  // namespace ripieno::ledger
