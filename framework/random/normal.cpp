#include <ripieno/framework/random/normal.hpp>

#include <algorithm>
#include <cfenv>
#include <string>
#include <thread>
#include <vector>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/random/kernels.hpp>

namespace ripieno {

namespace {

using random_detail::Slice;

constexpr std::uint64_t k_tile = 128;
constexpr std::uint64_t k_end_of_stream = std::uint64_t{1} << 63;
/// Below this share, about 30 microseconds of work, starting a thread costs more than it saves.
constexpr std::uint64_t k_smallest_share = 128 * k_tile;

/// Round to nearest with subnormals for as long as it lives, whatever the caller has set.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatingPoint() { std::fesetenv(&saved_); }
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

 private:
  std::fenv_t saved_;
};

/// Calls `fill(slice, stddev, out)` on `threads` contiguous parts of the slice, cut between tiles.
template <class T>
void fill_in_parallel(void (*fill)(const Slice&, double, T*), const Slice& whole, double stddev, T* out, int threads) {
  const auto run = [&](std::uint64_t first, std::uint64_t last) {
    const DefaultFloatingPoint guard;
    fill({.key = whole.key, .step = whole.step, .first = first, .last = last}, stddev, out + (first - whole.first));
  };
  const std::uint64_t size = whole.last - whole.first;
  const std::uint64_t shares =
      std::clamp<std::uint64_t>(size / k_smallest_share, 1, static_cast<std::uint64_t>(threads));
  const std::uint64_t share = (size / shares / k_tile + 1) * k_tile;
  const std::uint64_t start_tile = whole.first / k_tile * k_tile;
  std::vector<std::jthread> helpers;
  std::uint64_t first = whole.first;
  for (std::uint64_t i = 1; i < shares; ++i) {
    const std::uint64_t last = std::min(start_tile + i * share, whole.last);
    helpers.emplace_back(run, first, last);
    first = last;
  }
  run(first, whole.last);
}

template <class T>
void make(void (*fill)(const Slice&, double, T*), std::span<T> out, const Key& key, std::uint64_t step,
          std::uint64_t position, double stddev, double largest_stddev, int threads) {
  random_detail::check_slice(out.size(), position, stddev, largest_stddev);
  if (threads < 1) throw UsageError("noise on " + std::to_string(threads) + " threads", {}, "give at least 1");
  if (out.empty()) return;
  fill_in_parallel(fill, {.key = key.words.data(), .step = step, .first = position, .last = position + out.size()},
                   stddev, out.data(), threads);
}

}  // namespace

void random_detail::check_slice(std::size_t size, std::uint64_t position, double stddev, double largest_stddev) {
  if (!(stddev >= 0 && stddev <= largest_stddev)) {
    throw UsageError("no noise of standard deviation " + format_double(stddev),
                     "it must be from 0 to " + format_double(largest_stddev), "scale the values it is added to");
  }
  if (position > k_end_of_stream || size > k_end_of_stream - position) {
    throw UsageError("noise positions beyond 2^63", "a stream has no more", "fold something into the key");
  }
}

void fill_normal(std::span<float> out, const Key& key, std::uint64_t step, std::uint64_t position, double stddev,
                 int threads) {
  make(random_detail::fastest_kernels().fill_float, out, key, step, position, stddev,
       random_detail::k_largest_float_stddev, threads);
}

void fill_normal(std::span<double> out, const Key& key, std::uint64_t step, std::uint64_t position, double stddev,
                 int threads) {
  make(random_detail::fastest_kernels().fill_double, out, key, step, position, stddev,
       random_detail::k_largest_double_stddev, threads);
}

void fill_normal(std::span<std::int32_t> out, const Key& key, std::uint64_t step, std::uint64_t position, double stddev,
                 int threads) {
  make(random_detail::fastest_kernels().fill_int32, out, key, step, position, stddev,
       random_detail::k_largest_int32_stddev, threads);
}

void add_normal(std::span<float> inout, const Key& key, std::uint64_t step, std::uint64_t position, double stddev,
                int threads) {
  make(random_detail::fastest_kernels().add_float, inout, key, step, position, stddev,
       random_detail::k_largest_float_stddev, threads);
}

}  // namespace ripieno
