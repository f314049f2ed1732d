#pragma once

#include <ripieno/accounting/base/vector_clones.hpp>

namespace ripieno::bookkeeping {

/// 64 bytes of a scalar type in one register (or several, where the machine's are narrower), at any address.
template <class Scalar>
struct Lanes {
  typedef Scalar type __attribute__((vector_size(64), aligned(alignof(Scalar)), may_alias));
  static constexpr int count = 64 / static_cast<int>(sizeof(Scalar));
};

}  // namespace ripieno::bookkeeping
