#include <algorithm>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/stall.hpp>
#include <vector>

namespace ripieno {
namespace {

std::string name(const PeerReport& peer) { return "rank " + std::to_string(peer.rank) + " on " + peer.host; }

/// Whether some rank of that host answers, so that the host itself can be reached.
bool host_answers(std::span<const PeerReport> peers, const std::string& host) {
  return std::ranges::any_of(peers, [&](const PeerReport& peer) { return peer.host == host && peer.progress; });
}

std::string complaint(std::span<const PeerReport> peers, const PeerReport& peer, const RankProgress& mine) {
  if (peer.process == ProcessState::dead) return name(peer) + " is dead";
  if (peer.process == ProcessState::stopped) return name(peer) + " is stopped";
  if (!peer.progress) {
    return name(peer) + (host_answers(peers, peer.host) ? " does not answer, though its host does"
                                                        : " does not answer: its host is cut off or down, or the "
                                                          "process is dead or stopped");
  }
  const RankProgress& theirs = *peer.progress;
  if (theirs.collective < mine.collective) {
    const char* const how = theirs.inside              ? "still in "
                            : theirs.operation.empty() ? "outside any operation"
                                                       : "busy with ";
    return name(peer) + " has not come to it: it is " + how + theirs.operation;
  }
  if (theirs.collective == mine.collective && theirs.function != mine.function) {
    return name(peer) + " makes another call: " + theirs.function;
  }
  if (!theirs.inside) return name(peer) + " has left it";
  return {};
}

}  // namespace

std::string describe_stall(std::span<const PeerReport> peers, const RankProgress& mine) {
  const bool alone = std::ranges::none_of(peers, [](const PeerReport& peer) {
    return peer.progress || peer.process == ProcessState::stopped || peer.process == ProcessState::dead;
  });
  if (alone && peers.size() > 1) return "no other rank answers: this host is cut off";
  std::vector<std::string> complaints;
  for (const PeerReport& peer : peers) {
    if (std::string text = complaint(peers, peer, mine); !text.empty()) complaints.push_back(std::move(text));
  }
  if (complaints.empty()) return "every rank waits in it: messages are lost, or the network is very slow";
  return join(complaints, "; ");
}

}  // namespace ripieno
