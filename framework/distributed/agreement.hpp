#pragma once

#include <functional>
#include <ripieno/framework/comm/communicator.hpp>
#include <string>
#include <string_view>

namespace ripieno::distributed {

/// Collective. Returns when every rank describes what it is about to do in the same words; one small message. Otherwise
/// every rank throws UsageError(`what`, the descriptions and who gave them, `remedy`).
///
/// `describe` must not communicate. What it throws counts as a description: where all ranks throw alike, each rethrows
/// its own.
void agree(const Communicator& communicator, std::string_view what, std::string_view remedy,
           const std::function<std::string()>& describe);

/// CommError when there is no Runtime: for collectives that make no sense on one process that nobody has declared
/// alone.
void require_runtime(std::string_view function);

}  // namespace ripieno::distributed
