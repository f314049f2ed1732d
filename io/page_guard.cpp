#include <csetjmp>
#include <csignal>
#include <mutex>
#include <ripieno/io/page_guard.hpp>

namespace ripieno::io {
namespace {

// Where the thread's guarded read returns to on a fault; null outside one.
thread_local sigjmp_buf* guarded_read = nullptr;
struct sigaction previous_action;

void on_bus_error(int signal, siginfo_t*, void*) {
  if (guarded_read != nullptr) siglongjmp(*guarded_read, 1);
  // Not ours: the access is repeated when this returns, and meets the handler that was there before.
  ::sigaction(signal, &previous_action, nullptr);
}

}  // namespace

void install_page_guard() {
  static std::once_flag installed;
  std::call_once(installed, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    // SA_NODEFER: the jump leaves the handler for good, and must not leave the signal blocked.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &previous_action);
  });
}

bool read_guarded(void (*body)(void*), void* context) {
  sigjmp_buf here;
  sigjmp_buf* const outer = guarded_read;
  if (sigsetjmp(here, 0) != 0) {
    guarded_read = outer;
    return false;
  }
  guarded_read = &here;
  body(context);
  guarded_read = outer;
  return true;
}

}  // namespace ripieno::io
