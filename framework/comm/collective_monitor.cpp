#include <mpi.h>

#include <cstring>
#include <list>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/collective_monitor.hpp>
#include <ripieno/framework/comm/mpi_internal.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/comm/stall.hpp>
#include <utility>
#include <vector>

namespace ripieno {
namespace {

using Clock = std::chrono::steady_clock;
/// A rank that is well answers within its watchdog's tick and the network's latency.
constexpr std::chrono::milliseconds k_patience_with_answers{2000};
constexpr std::chrono::milliseconds k_poll{5};
constexpr int k_question = 0;
constexpr int k_answer = 1;

std::vector<ProcessId> gather_processes(const Communicator& world) {
  const ProcessId mine = this_process();
  std::vector<ProcessId> all;
  for (const auto& bytes : world.allgather(std::as_bytes(std::span(&mine, 1)))) {
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof(ProcessId));
  }
  return all;
}

}  // namespace

/// Questions and answers between the monitors. Only monitor threads use it.
class CollectiveMonitor::Channel {
 public:
  Channel(const MpiCommunicator& world, std::vector<HostEntry> hosts)
      : comm_(CommHandle::duplicate(world.handle())),
        rank_(world.rank()),
        hosts_(std::move(hosts)),
        processes_(gather_processes(world)) {}

  void answer(const RankProgress& progress) {
    forget_delivered();
    while (const auto question = receive(k_question)) send(question->first, k_answer, text_of(progress));
  }

  std::vector<PeerReport> ask_all(const RankProgress& mine) {
    std::vector<PeerReport> peers = blank_reports();
    for (const PeerReport& peer : peers) send(peer.rank, k_question, {});
    std::size_t answers = 0;
    for (const auto deadline = Clock::now() + k_patience_with_answers; Clock::now() < deadline;
         std::this_thread::sleep_for(k_poll)) {
      answer(mine);
      while (const auto reply = receive(k_answer)) {
        take(reply->first, reply->second, peers);
        ++answers;
      }
      if (answers == peers.size()) break;
    }
    return peers;
  }

 private:
  using Message = std::pair<int, std::string>;  // rank, text
  struct Sent {
    std::string text;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  /// Of every other rank, what can be seen from here.
  [[nodiscard]] std::vector<PeerReport> blank_reports() const {
    std::vector<PeerReport> peers;
    for (const HostEntry& entry : hosts_) {
      if (entry.rank != rank_) peers.push_back({entry.rank, entry.host, std::nullopt, state_seen_here(entry)});
    }
    return peers;
  }

  [[nodiscard]] ProcessState state_seen_here(const HostEntry& entry) const {
    const bool same_host = entry.host == hosts_[static_cast<std::size_t>(rank_)].host;
    return same_host ? state_of(processes_[static_cast<std::size_t>(entry.rank)]) : ProcessState::unknown;
  }

  /// An answer: this rank's progress, and which ranks of its host are stopped or dead.
  [[nodiscard]] std::string text_of(const RankProgress& progress) const {
    Json json{{"collective", progress.collective},
              {"inside", progress.inside},
              {"function", progress.function},
              {"operation", progress.operation}};
    for (const PeerReport& peer : blank_reports()) {
      if (peer.process == ProcessState::stopped) json["stopped"].push_back(peer.rank);
      if (peer.process == ProcessState::dead) json["dead"].push_back(peer.rank);
    }
    return json.dump();
  }

  static void take(int rank, const std::string& text, std::vector<PeerReport>& peers) {
    const Json json = Json::parse(text);
    for (PeerReport& peer : peers) {
      if (peer.rank == rank) {
        peer.progress =
            RankProgress{json.at("collective"), json.at("inside"), json.at("function"), json.at("operation")};
      }
      for (const auto& [key, state] :
           {std::pair("stopped", ProcessState::stopped), std::pair("dead", ProcessState::dead)}) {
        for (const int sick : json.value(key, std::vector<int>{})) {
          if (sick == peer.rank) peer.process = state;
        }
      }
    }
  }

  /// Does not wait for the receiver, which may be gone.
  void send(int rank, int tag, std::string text) {
    Sent& sent = sent_.emplace_back();
    sent.text = std::move(text);
    MPI_Isend(sent.text.data(), static_cast<int>(sent.text.size()), MPI_CHAR, rank, tag, comm_.get(), &sent.request);
  }

  void forget_delivered() {
    std::erase_if(sent_, [](Sent& sent) {
      int done = 0;
      MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    });
  }

  [[nodiscard]] std::optional<Message> receive(int tag) const {
    int waiting = 0;
    MPI_Status status{};
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_.get(), &waiting, &status) != MPI_SUCCESS || waiting == 0) return {};
    int size = 0;
    MPI_Get_count(&status, MPI_CHAR, &size);
    Message message{status.MPI_SOURCE, std::string(static_cast<std::size_t>(size), '\0')};
    if (MPI_Recv(message.second.data(), size, MPI_CHAR, message.first, tag, comm_.get(), MPI_STATUS_IGNORE) !=
        MPI_SUCCESS) {
      return {};
    }
    return message;
  }

  CommHandle comm_;
  int rank_;
  std::vector<HostEntry> hosts_;
  std::vector<ProcessId> processes_;
  std::list<Sent> sent_;
};

CollectiveMonitor::CollectiveMonitor(const MpiCommunicator& world, const std::vector<HostEntry>& hosts,
                                     double timeout_s, OnStall on_stall)
    : channel_(std::make_unique<Channel>(world, hosts)),
      on_stall_(std::move(on_stall)),
      watchdog_(
          timeout_s, [this](const std::string& function, double limit_s) { stalled(function, limit_s); },
          [this] { answer_questions(); }) {}

CollectiveMonitor::~CollectiveMonitor() = default;

CollectiveMonitor::Passage::Passage(CollectiveMonitor& monitor, const char* function)
    : monitor_(monitor), watch_(monitor.watchdog_.watch(function)) {
  ++monitor_.entered_;
  monitor_.function_ = function;
  monitor_.inside_ = true;
}

CollectiveMonitor::Passage::~Passage() { monitor_.inside_ = false; }

void CollectiveMonitor::answer_questions() noexcept {
  try {
    channel_->answer(progress());
  } catch (const std::exception&) {
    // Out of memory: the other ranks will find that this one does not answer.
  }
}

void CollectiveMonitor::stalled(const std::string& function, double timeout_s) {
  const RankProgress mine = progress();
  on_stall_(function + " has not ended after " + format_double(timeout_s) + " s",
            describe_stall(channel_->ask_all(mine), mine));
}

RankProgress CollectiveMonitor::progress() const {
  return {entered_.load(), inside_.load(), function_.load(), current_operation()};
}

}  // namespace ripieno
