#pragma once

#include <cstddef>
#include <ripieno/io/dtype.hpp>
#include <ripieno/io/shard_info.hpp>

namespace ripieno::io {

/// Turns one stored example into normalised float32 (see Normalisation). Each operation is rounded to float32 on its
/// own, so that the result is the same on every processor, and the same as numpy's.
class RowConverter {
 public:
  /// `elements`: of one example.
  RowConverter(DType dtype, Normalisation normalisation, std::size_t elements);

  /// Reads `elements` values at `row` (any alignment), writes as many floats to `out`. Allocates nothing, throws
  /// nothing.
  void operator()(const std::byte* row, float* out) const noexcept;

 private:
  using Run = void (*)(const std::byte* in, float* out, std::size_t count, float scale);

  Run run_;
  Normalisation normalisation_;
  std::size_t elements_;
  std::size_t item_size_;
};

}  // namespace ripieno::io
