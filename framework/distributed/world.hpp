#pragma once

namespace ripieno::distributed {

/// True when a Runtime is alive and has several ranks.
[[nodiscard]] bool is_distributed();
/// Rank in the current Runtime; 0 without one.
[[nodiscard]] int get_rank();
/// Number of ranks of the current Runtime; 1 without one.
[[nodiscard]] int get_world_size();
/// Collective. Returns once every rank has called it; at once without a Runtime.
void barrier();

}  // namespace ripieno::distributed
