#pragma once

#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <string_view>

namespace ripieno::distributed {

/// Collective. CommError on every rank unless all have the same tree to the bit: paths, dtypes, shapes and bytes, by a
/// fingerprint of 128 bits. The message names the first leaf that differs and which ranks agree on it. One small
/// message where they are equal. `name` says what the tree is, as in "parameters".
void assert_pytree_equal(const PyTree& tree, std::string_view name, const Communicator& communicator);
void assert_pytree_equal(const PyTree& tree, std::string_view name = "tree");

}  // namespace ripieno::distributed
