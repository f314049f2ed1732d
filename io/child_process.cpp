#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <optional>
#include <ripieno/io/child_process.hpp>
#include <ripieno/io/file.hpp>
#include <ripieno/io/hdf5_handle_internal.hpp>
#include <system_error>

namespace ripieno::io {

void confine_child() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // A crash prints from inside the C library; the parent says it better.
  const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (nowhere.get() >= 0) ::dup2(nowhere.get(), STDERR_FILENO);
  // Handlers of the parent (MPI prints a stack trace) have no business here.
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF, SIGPIPE}) std::signal(signal, SIG_DFL);
}

void limit_cpu_time(int seconds) {
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

bool survives_in_child(const std::function<void()>& body) {
  constexpr int k_cpu_limit_s = 10;
  // Of a child that uses no processor time: its file system stalls, or the fork caught another thread inside an
  // allocator that does not expect forks.
  constexpr int k_patience_ms = 20000;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  // No other thread may be inside HDF5 at the fork: the child would inherit its half-done work.
  std::optional<hdf5::Session> session(std::in_place);
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    session.reset();
    confine_child();
    limit_cpu_time(k_cpu_limit_s);
    try {
      body();
    } catch (const std::exception&) {  // told by the parent, which meets it again
    }
    ::_exit(0);
  }
  session.reset();
  write_end = UniqueFd();
  pollfd closed{.fd = read_end.get(), .events = POLLIN, .revents = 0};
  int ready = 0;
  while ((ready = ::poll(&closed, 1, k_patience_ms)) < 0 && errno == EINTR) {
  }
  if (ready == 0) ::kill(child, SIGKILL);  // silent: what it has left to do is done here, for better or worse
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return ready == 0 || WIFEXITED(status);
}

}  // namespace ripieno::io
