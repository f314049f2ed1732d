#pragma once
// Internal to io: includes hdf5.h.

#include <hdf5.h>

#include <filesystem>
#include <mutex>
#include <ripieno/io/dtype.hpp>
#include <string>
#include <utility>

namespace ripieno::io::hdf5 {

/// Exclusive use of the HDF5 library, which is not thread-safe, with its error printing switched off. Whoever calls
/// HDF5 holds one; sessions do not nest.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

/// An HDF5 identifier, closed with the object. Needs a Session at both moments.
template <herr_t (*close)(hid_t)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) noexcept : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close(id_);
  }

  [[nodiscard]] hid_t get() const noexcept { return id_; }
  explicit operator bool() const noexcept { return id_ >= 0; }
  /// Closes now and tells whether that worked: for a file that was written.
  [[nodiscard]] bool reset() noexcept { return close(std::exchange(id_, H5I_INVALID_HID)) >= 0; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

using File = Handle<H5Fclose>;
using Object = Handle<H5Oclose>;
using Dataset = Handle<H5Dclose>;
using Attribute = Handle<H5Aclose>;
using Space = Handle<H5Sclose>;
using Type = Handle<H5Tclose>;
using Properties = Handle<H5Pclose>;

/// The innermost message of the library's last failure: "HDF5: truncated file: eof = ...".
[[nodiscard]] std::string last_error();

/// File access as io uses it: no file locks (network file systems refuse them, and a shard is never written in place),
/// and no object can keep a file open.
[[nodiscard]] Properties file_access();

/// The type of elements in the file. Needs a Session.
[[nodiscard]] Type stored_type(DType dtype);

}  // namespace ripieno::io::hdf5
