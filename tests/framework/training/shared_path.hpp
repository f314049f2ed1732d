#pragma once

#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "mpi_test.hpp"

namespace ripieno::testing {

/// A name in the temporary folder that all ranks know and nobody else has; removed with the object.
class SharedPath {
 public:
  explicit SharedPath(const std::string& name) {
    std::array<std::int64_t, 1> pid{world().rank() == 0 ? ::getpid() : 0};
    world().allreduce_sum(std::span<std::int64_t>(pid));
    path_ = std::filesystem::temp_directory_path() / ("ripieno-" + std::to_string(pid[0]) + "-" + name);
  }
  ~SharedPath() {
    if (world().rank() == 0) std::filesystem::remove(path_);
  }
  SharedPath(const SharedPath&) = delete;
  SharedPath& operator=(const SharedPath&) = delete;

  [[nodiscard]] const std::filesystem::path& get() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ripieno::testing
