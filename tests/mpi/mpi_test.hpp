#pragma once

#include <ripieno/framework/comm/communicator.hpp>

namespace ripieno::testing {

/// All ranks of this test program, apart from the harness's own messages. Every collective call is compared between
/// ranks before it is made.
[[nodiscard]] const Communicator& world();

}  // namespace ripieno::testing
