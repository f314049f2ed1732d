#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace ripieno {

/// Progress of a long loop on stderr: a bar that is redrawn on a terminal, a line now and then elsewhere. The estimate
/// of the time left assumes that the rest goes at the average pace so far.
class Progress {
 public:
  /// `enabled` is false on every rank but rank 0, and when the user asked for quiet.
  Progress(std::string label, std::int64_t total, bool enabled);

  /// True when a call of `update` would print; a caller may then compute what it wants to show.
  [[nodiscard]] bool due() const;
  /// `done` of `total` are finished; `note` is shown behind the figures.
  void update(std::int64_t done, std::string_view note);
  /// Prints the last state and ends the line.
  void finish(std::string_view note);

 private:
  using Clock = std::chrono::steady_clock;

  void draw(std::int64_t done, std::string_view note);

  std::string label_;
  std::int64_t total_;
  bool enabled_;
  bool terminal_;
  Clock::time_point start_;
  Clock::time_point next_;
  std::size_t drawn_width_ = 0;
};

}  // namespace ripieno
