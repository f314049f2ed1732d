#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/staging_folder.hpp>
#include <ripieno/io/uuid.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view k_prefix = ".unpublished-";
constexpr std::string_view k_taken_prefix = ".taken-";

/// Those of former owners, and what somebody began to remove.
std::vector<fs::path> abandoned(const fs::path& run) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(k_prefix) || name.starts_with(k_taken_prefix)) found.push_back(entry.path());
  }
  return found;
}

void take_away(const fs::path& folder) {
  // The one step after which its owner can publish nothing. Removing file by file would leave it moments.
  const fs::path taken = folder.parent_path() / (std::string(k_taken_prefix) + random_uuid());
  if (std::rename(folder.c_str(), taken.c_str()) != 0) {
    if (errno == ENOENT) return;
    throw PrivacyError("cannot take " + folder.string() + " away", std::strerror(errno),
                       "its process could still write; mend the file system and resume");
  }
  std::error_code later;  // what is still held open somewhere is removed by the next start
  fs::remove_all(taken, later);
}

}  // namespace

StagingFolder::StagingFolder(const fs::path& run)
    : folder_((run.empty() ? fs::path(".") : run) / (std::string(k_prefix) + random_uuid())) {
  try {
    for (const fs::path& old : abandoned(folder_.parent_path())) take_away(old);
    fs::create_directory(folder_);
    fs::permissions(folder_, fs::perms::owner_all);
  } catch (const fs::filesystem_error& e) {
    throw PrivacyError("cannot make " + folder_.string(), e.code().message(), "mend the file system and resume");
  }
}

StagingFolder::StagingFolder(StagingFolder&& other) noexcept : folder_(std::exchange(other.folder_, {})) {}

StagingFolder& StagingFolder::operator=(StagingFolder&& other) noexcept {
  std::swap(folder_, other.folder_);
  return *this;
}

StagingFolder::~StagingFolder() {
  if (folder_.empty()) return;
  std::error_code ignored;  // the next start removes what stays
  fs::remove_all(folder_, ignored);
}

void StagingFolder::publish(const fs::path& to, Overwrite overwrite,
                            const std::function<void(const fs::path&)>& make) const {
  const fs::path made = folder_ / to.filename();
  try {
    fs::remove(made);  // of a call that failed
    make(made);
    sync_to_disk(made);
    give_name(made, to, overwrite);
  } catch (...) {
    std::error_code ignored;
    fs::remove(made, ignored);
    if (fs::exists(folder_, ignored)) throw;
    throw PrivacyError("cannot write " + to.string(), "another process took the run over",
                       "this one must not go on; see the other's output");
  }
  sync_to_disk(to.has_parent_path() ? to.parent_path() : fs::path("."));
}

}  // namespace ripieno::io
