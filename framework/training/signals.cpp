#include <array>
#include <csignal>
#include <ripieno/framework/training/signals.hpp>

namespace ripieno {
namespace {

// What a handler may touch.
volatile std::sig_atomic_t stop_flag = 0;
volatile std::sig_atomic_t checkpoint_flag = 0;

void note_stop(int signal) {
  if (signal == SIGTERM && stop_flag != 0) {
    std::signal(SIGTERM, SIG_DFL);
    std::raise(SIGTERM);
  }
  stop_flag = 1;
}

void note_checkpoint(int) { checkpoint_flag = 1; }

struct Watched {
  int signal;
  void (*handler)(int);
  struct sigaction before {};
};
std::array<Watched, 3> watched{{{SIGTERM, note_stop}, {SIGUSR1, note_stop}, {SIGUSR2, note_checkpoint}}};

}  // namespace

SignalWatch::SignalWatch() {
  stop_flag = 0;
  checkpoint_flag = 0;
  for (Watched& one : watched) {
    struct sigaction action {};
    action.sa_handler = one.handler;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(one.signal, &action, &one.before);
  }
}

SignalWatch::~SignalWatch() {
  for (Watched& one : watched) ::sigaction(one.signal, &one.before, nullptr);
}

bool SignalWatch::stop_asked() noexcept { return stop_flag != 0; }

bool SignalWatch::take_checkpoint_asked() noexcept {
  const bool asked = checkpoint_flag != 0;
  checkpoint_flag = 0;
  return asked;
}

}  // namespace ripieno
