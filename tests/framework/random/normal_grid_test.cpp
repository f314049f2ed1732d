// What a device's threads do, done here one after another: the source is the kernel's, so that the device has only
// IEEE 754's own operations left to get wrong. The cuda preset compiles this file by nvcc too.
#define RIPIENO_RANDOM_ISA grid_on_host

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <ripieno/framework/random/normal.hpp>
#include <ripieno/framework/random/normal_grid.hpp>
#include <vector>

namespace ripieno {
namespace {

using random_detail::NormalGrid;
using random_detail::Sink;

/// 10^8 with RIPIENO_FULL=1.
std::size_t num_values() { return std::getenv("RIPIENO_FULL") != nullptr ? 100'000'000 : 2'000'000; }

template <class T, bool adds>
void run_grid(T* out, std::size_t size, const Key& key, std::uint64_t step, std::uint64_t position, double stddev) {
  NormalGrid grid{.key = {}, .step = step, .first = position, .last = position + size, .stddev = stddev};
  std::memcpy(grid.key.words, key.words.data(), sizeof grid.key.words);
  for (std::uint64_t thread = 0; thread < grid.threads(); ++thread) grid.run(thread, Sink<T, adds>{out});
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
void expect_same_bits(std::size_t size, std::uint64_t step, std::uint64_t position, double stddev) {
  const Key secret = key(7);
  std::vector<T> expected(size), made(size);
  fill_normal(std::span(expected), secret, step, position, stddev);
  run_grid<T, false>(made.data(), size, secret, step, position, stddev);
  EXPECT_TRUE(same_bits(made, expected)) << size << " values from position " << position;
}

TEST(NormalGrid, GivesTheProcessorsBits) {
  // In pieces across the place where the block counter carries into its upper half.
  const std::size_t piece = 1'000'000;
  const std::uint64_t carry = (std::uint64_t{1} << 32) * 8;
  for (std::size_t done = 0; done < num_values(); done += piece) {
    expect_same_bits<float>(piece, 3, carry - num_values() / 2 + done, 1.5);
  }
  expect_same_bits<double>(piece, 4, 0, 0.3);
}

TEST(NormalGrid, MakesAnySliceAndTouchesNothingElse) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    const std::size_t size = 1 + random() % 700;
    const std::uint64_t position = random() % 100'000;
    expect_same_bits<float>(size, random(), position, 2);
    std::vector<float> guarded(size + 2, 42.0F);
    run_grid<float, false>(guarded.data() + 1, size, key(1), 5, position, 1);
    EXPECT_EQ(guarded.front(), 42.0F);
    EXPECT_EQ(guarded.back(), 42.0F);
  }
}

TEST(NormalGrid, AddsWithOneMoreRounding) {
  const std::size_t size = 100'000;
  std::vector<float> expected(size), made;
  for (std::size_t i = 0; i < size; ++i) expected[i] = 0.001F * static_cast<float>(i);
  made = expected;
  add_normal(std::span(expected), key(9), 6, 77, 0.7);
  run_grid<float, true>(made.data(), size, key(9), 6, 77, 0.7);
  EXPECT_TRUE(same_bits(made, expected));

  std::vector<double> noise(size), sums(size, 1.0 / 3);
  fill_normal(std::span(noise), key(9), 6, 77, 0.7);
  for (double& value : noise) value += 1.0 / 3;
  run_grid<double, true>(sums.data(), size, key(9), 6, 77, 0.7);
  EXPECT_TRUE(same_bits(sums, noise));
}

}  // namespace
}  // namespace ripieno
