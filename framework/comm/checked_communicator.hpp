#pragma once

#include <memory>
#include <ripieno/framework/comm/communicator.hpp>

namespace ripieno {

/// A communicator whose ranks tell each other, before every collective, what they are about to do. Where operation,
/// dtype, number of elements, root or step differ, every rank throws the same CommError, which names them; without the
/// check such ranks would hang or add unrelated numbers. Costs one more small collective for each.
[[nodiscard]] std::unique_ptr<Communicator> make_checked_communicator(std::unique_ptr<Communicator> inner);

}  // namespace ripieno
