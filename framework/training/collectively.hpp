#pragma once

#include <exception>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/comm/failure.hpp>

namespace ripieno {

/// A failure of some rank, which has printed it; every rank throws this together.
class ReportedError : public Error, public AlreadyReported {
 public:
  explicit ReportedError(ExitCode code) : Error(code, "a rank failed", "its message is above", {}) {}
};

/// Collective. Returns when `failure` is null on every rank. Otherwise the lowest failing rank prints its own, and
/// every rank throws ReportedError with that one's exit code.
void agree_on_failure(const Communicator& communicator, const std::exception_ptr& failure);

/// Collective. Runs `work`, which must not communicate; when it throws on any rank, one message is printed and every
/// rank throws ReportedError (invariant P10).
template <class Work>
void collectively(const Communicator& communicator, Work&& work) {
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  agree_on_failure(communicator, failure);
}

}  // namespace ripieno
