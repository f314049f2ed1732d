#pragma once

#include <chrono>
#include <cstdint>
#include <ripieno/io/example_source.hpp>
#include <string>

namespace ripieno {

/// "importing 45 %, about 12 s left" on a terminal, rewritten in place; elsewhere a line every half minute.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(double fraction);
  /// The same as a callback of an import.
  [[nodiscard]] io::ImportProgress import();

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] std::string text(double fraction) const;

  std::string what_;
  bool rewrites_;
  double first_fraction_ = -1;  // an import that goes on does not begin at zero
  Clock::time_point start_;
  Clock::time_point last_;
  std::string shown_;
};

}  // namespace ripieno
