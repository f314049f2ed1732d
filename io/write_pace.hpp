#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace ripieno::io {

/// How fast a large file is written beside a run whose ledger is on the same disk. A device takes hundreds of megabytes
/// in an instant and then, for as long as it works them off, not even a record of the ledger; so the writer rests after
/// each piece: for as long as the piece took, and at least until the mean rate is low enough.
class WritePace {
 public:
  static constexpr std::size_t k_piece_bytes = std::size_t{4} << 20;  ///< what is on the disk before each rest

  /// A file of about `bytes` follows. Rests make a file last 20 s at most, if the disk allows that.
  void begin(std::uint64_t bytes) noexcept;
  /// To be called once the next `bytes` are on the disk. Returns after the rest.
  void rest_after(std::size_t bytes);
  /// Ends the rest that is on, if any, and all that would come; from any thread: somebody waits for the file.
  void hurry() noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  double bytes_per_s_ = 0;
  Clock::time_point piece_start_;
  bool hurried_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace ripieno::io
