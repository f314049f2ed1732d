#pragma once

#include <exception>
#include <ripieno/accounting/base/error.hpp>
#include <string>

namespace ripieno {

/// Mixed into an exception whose message is on the terminal already and which every rank throws together:
/// `Runtime::run` takes only its exit code, and MPI ends in the ordinary way.
class AlreadyReported {
 public:
  virtual ~AlreadyReported() = default;

 protected:
  AlreadyReported() = default;
  AlreadyReported(const AlreadyReported&) = default;
  AlreadyReported& operator=(const AlreadyReported&) = default;
};

/// What a driver says and returns for an exception.
struct FailureReport {
  ExitCode code = ExitCode::internal;
  std::string text;
  bool already_reported = false;
};

/// `failure` must hold an exception.
[[nodiscard]] FailureReport describe_failure(const std::exception_ptr& failure);

/// Ends this process and, where MPI runs on several ranks, every other one. May be called from any thread and does not
/// depend on MPI being in a state to answer: after two seconds the process leaves without it, which launchers also
/// treat as a failure of the job. `ranks` is the world size.
[[noreturn]] void stop_all_ranks(int ranks, ExitCode code) noexcept;

}  // namespace ripieno
