#pragma once

#include <ATen/Parallel.h>

#include <cstddef>
#include <cstdint>

namespace ripieno::optim {

/// Elements that are worth a thread. Sums are made of so many elements each, whatever the number of threads.
inline constexpr std::int64_t k_grain = 32768;

/// f(begin, end) over [0, size) on ATen's threads, at least `grain` elements each.
template <class F>
void over_elements(std::int64_t size, F f, std::int64_t grain = k_grain) {
  at::parallel_for(0, size, grain, [&](std::int64_t begin, std::int64_t end) {
    f(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  });
}

}  // namespace ripieno::optim
