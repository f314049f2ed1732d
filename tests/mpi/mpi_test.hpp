#pragma once

#include <ripieno/framework/comm/communicator.hpp>

namespace ripieno::testing {

/// All ranks of this test program, apart from the harness's own messages.
[[nodiscard]] const Communicator& world();

}  // namespace ripieno::testing
