#pragma once

#include <cstdint>
#include <optional>
#include <ripieno/framework/comm/process_state.hpp>
#include <span>
#include <string>

namespace ripieno {

/// Where a rank stands among its collectives.
struct RankProgress {
  std::int64_t collective = 0;  ///< number of the one it is in, or did last
  bool inside = false;
  std::string function;   ///< of the one it is in, or did last, as "MPI_Barrier"
  std::string operation;  ///< what `current_operation` says there
};

/// What one rank knows of another when a collective does not end.
struct PeerReport {
  int rank = 0;
  std::string host;
  std::optional<RankProgress> progress;  ///< nothing: it has not answered
  ProcessState process = ProcessState::unknown;
};

/// Who keeps the collective that `mine` is in from ending, for an error message: ranks that are dead or stopped, that
/// do not answer, or that are elsewhere. `peers` are all other ranks.
[[nodiscard]] std::string describe_stall(std::span<const PeerReport> peers, const RankProgress& mine);

}  // namespace ripieno
