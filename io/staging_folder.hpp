#pragma once

#include <filesystem>
#include <functional>
#include <ripieno/io/file.hpp>

namespace ripieno::io {

/// A folder in which the owner of a run makes its files before they get their names: ".unpublished-UUID" in the run's
/// folder. Whoever takes the run over takes all such folders away first, in one instant each. From then on no rename
/// out of them succeeds: a process that lives on, on a node that was lost, can neither add nor replace a file of the
/// run, however late it wakes up (invariant P4).
class StagingFolder {
 public:
  /// Takes away what former owners of `run` left and makes a new one. PrivacyError when that is not possible.
  explicit StagingFolder(const std::filesystem::path& run);
  StagingFolder(StagingFolder&& other) noexcept;
  StagingFolder& operator=(StagingFolder&& other) noexcept;
  /// Removes the folder and what is in it.
  ~StagingFolder();

  /// Calls `make` with the name of a file that does not exist yet, and gives the file that it wrote the name `to`:
  /// whole and durably, or not at all. PrivacyError when another process has taken the run over; DataError when the
  /// file cannot be written, or `to` exists and must stay. Rethrows what `make` throws. From one thread at a time for
  /// one name of `to`.
  void publish(const std::filesystem::path& to, Overwrite overwrite,
               const std::function<void(const std::filesystem::path&)>& make) const;

 private:
  std::filesystem::path folder_;  // empty when moved from
};

}  // namespace ripieno::io
