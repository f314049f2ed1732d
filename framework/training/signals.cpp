#include <array>
#include <csignal>
#include <ctime>
#include <ripieno/framework/training/signals.hpp>

namespace ripieno {
namespace {

// What a handler may touch.
volatile std::sig_atomic_t stop_flag = 0;
volatile std::sig_atomic_t checkpoint_flag = 0;
volatile std::sig_atomic_t terminated = 0;
timespec first_terminated{};  // written once, before `terminated`

/// Launchers and Slurm may pass one and the same SIGTERM on by two ways.
constexpr std::time_t k_same_signal_s = 2;

void note_stop(int signal) {
  stop_flag = 1;
  if (signal != SIGTERM) return;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  if (terminated == 0) {
    first_terminated = now;
    terminated = 1;
  } else if (now.tv_sec - first_terminated.tv_sec > k_same_signal_s) {
    std::signal(SIGTERM, SIG_DFL);
    std::raise(SIGTERM);
  }
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
  terminated = 0;
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
