#include <algorithm>
#include <ripieno/io/write_pace.hpp>

namespace ripieno::io {
namespace {

constexpr double k_gentle_bytes_per_s = 100e6;
constexpr double k_longest_s = 20;

}  // namespace

void WritePace::begin(std::uint64_t bytes) noexcept {
  bytes_per_s_ = std::max(k_gentle_bytes_per_s, static_cast<double>(bytes) / k_longest_s);
  piece_start_ = Clock::now();
}

void WritePace::rest_after(std::size_t bytes) {
  const std::chrono::duration<double> taken = Clock::now() - piece_start_;
  const std::chrono::duration<double> due(static_cast<double>(bytes) / bytes_per_s_);
  {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, std::max(taken, due - taken), [this] { return hurried_; });
  }
  piece_start_ = Clock::now();
}

void WritePace::hurry() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    hurried_ = true;
  }
  wake_.notify_all();
}

}  // namespace ripieno::io
