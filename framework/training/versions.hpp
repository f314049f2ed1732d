#pragma once

#include <ripieno/accounting/base/json.hpp>

namespace ripieno {

/// Versions of this build and of the libraries that it runs with.
[[nodiscard]] Json versions();

}  // namespace ripieno
