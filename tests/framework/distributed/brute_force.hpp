#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <ripieno/framework/distributed/op.hpp>
#include <span>
#include <string>
#include <vector>

#include "mpi_test.hpp"

namespace ripieno::testing {

inline constexpr std::array k_ops{distributed::Op::sum, distributed::Op::mean, distributed::Op::max,
                                  distributed::Op::min, distributed::Op::product};
inline constexpr std::array k_dtypes{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,
                                     at::kInt,   at::kShort,  at::kChar, at::kByte,     at::kBool};
inline constexpr std::array<std::int64_t, 4> k_sizes{0, 1, 7, 1'000'000};

inline bool full_matrix() { return std::getenv("RIPIENO_FULL") != nullptr; }

/// The sizes to try: a million elements, which take their time on eight ranks, only where `large` or RIPIENO_FULL says.
inline std::span<const std::int64_t> sizes(bool large) {
  return std::span(k_sizes).first(large || full_matrix() ? k_sizes.size() : k_sizes.size() - 1);
}

inline bool last_rank() { return world().rank() == world().size() - 1; }
inline bool alone() { return world().size() == 1; }

/// Runs a collective that must throw on every rank and leave them in step; the message.
template <class E, class F>
std::string error_everywhere(F&& f) {
  std::string text;
  try {
    f();
    ADD_FAILURE() << "accepted";
  } catch (const E& e) {
    text = e.what();
  }
  world().barrier();
  return text;
}

/// Values repeat with this period, so that what a million of them become is known from a few.
inline constexpr std::int64_t k_period = 12;

inline at::Tensor repeated(const at::Tensor& period, std::int64_t size) {
  return period.repeat({(size + k_period - 1) / k_period}).narrow(0, 0, size);
}

/// What `rank` gives: small integers, so that sums and products of eight ranks are exact in every dtype.
inline at::Tensor given(int rank, std::int64_t size, at::ScalarType dtype) {
  const at::Tensor numbers = at::arange(k_period, at::kLong) + rank;
  const at::Tensor period =
      dtype == at::kBool ? numbers.remainder(3).eq(0) : (numbers.remainder(4).eq(0).to(at::kLong) + 1).to(dtype);
  return repeated(period, size);
}

/// The same by brute force over all ranks' values; bool as or (sum, max) and and (product, min).
inline at::Tensor expected(distributed::Op op, std::int64_t size, at::ScalarType dtype) {
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < world().size(); ++rank) all.push_back(given(rank, k_period, dtype).to(at::kDouble));
  const at::Tensor stacked = at::stack(all);
  switch (op) {
    case distributed::Op::sum:
      return repeated(stacked.sum(0).to(dtype), size);
    case distributed::Op::mean:
      return repeated((stacked.sum(0).to(dtype == at::kDouble ? at::kDouble : at::kFloat) / world().size()).to(dtype),
                      size);
    case distributed::Op::max:
      return repeated(stacked.amax(0).to(dtype), size);
    case distributed::Op::min:
      return repeated(stacked.amin(0).to(dtype), size);
    case distributed::Op::product:
      return repeated(stacked.prod(0).to(dtype), size);
  }
  return {};
}

inline std::string dtype_name(const ::testing::TestParamInfo<at::ScalarType>& info) { return at::toString(info.param); }

}  // namespace ripieno::testing
