#pragma once

#include <filesystem>

namespace ripieno::io {

/// Copies a dataset to a folder on a local disk, in a folder of its own below `folder`, and returns the copy's
/// manifest. A copy that is there is used again, whole files of one that was cut short too. Any number of processes may
/// do this at once: one copies, the others wait. DataError when the disk is full.
[[nodiscard]] std::filesystem::path stage_dataset(const std::filesystem::path& path,
                                                  const std::filesystem::path& folder);

}  // namespace ripieno::io
