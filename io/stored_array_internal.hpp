#pragma once
// Internal to io: includes hdf5.h.

#include <ripieno/io/hdf5_handle_internal.hpp>
#include <ripieno/io/shard_info.hpp>
#include <string>

namespace ripieno::io {

/// Where one dataset of one shard is looked for.
struct ArraySource {
  hid_t file;
  const std::filesystem::path& path;
  std::int64_t file_bytes;
};

struct OpenedArray {
  hdf5::Object dataset;
  StoredArray array;  ///< without its sha256
};

/// Opens the member `name`, which exists, and checks that it is a dataset in the shard itself, of a type that is read,
/// stored contiguously and wholly inside the file. Needs a Session.
[[nodiscard]] OpenedArray open_array(const ArraySource& source, const std::string& name);

}  // namespace ripieno::io
