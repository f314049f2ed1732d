#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace ripieno {

/// Exit codes of every executable.
enum class ExitCode : int {
  ok = 0,
  internal = 1,       ///< a fault of the program itself
  usage = 2,          ///< the command line or configuration is wrong
  data = 3,           ///< a dataset, model or other input file is wrong
  privacy = 4,        ///< going on would break the privacy guarantee
  communication = 5,  ///< launch, MPI or another rank failed
  checkpointed = 85,  ///< stopped on a signal with a checkpoint; run the same command to go on
};

/// Base of the errors that a user can do something about. The text reads `WHAT (WHY); TRY`, with the parts that are
/// empty left out.
class Error : public std::runtime_error {
 public:
  [[nodiscard]] ExitCode code() const noexcept { return code_; }

 protected:
  Error(ExitCode code, std::string_view what, std::string_view why, std::string_view advice);

 private:
  ExitCode code_;
};

/// The caller asked for something that makes no sense: option, argument, shape or type.
class UsageError : public Error {
 public:
  explicit UsageError(std::string_view what, std::string_view why = {}, std::string_view advice = {})
      : Error(ExitCode::usage, what, why, advice) {}
};

/// An input file is missing, broken or of the wrong kind. Names the file, never a private value (invariant P1).
class DataError : public Error {
 public:
  explicit DataError(std::string_view what, std::string_view why = {}, std::string_view advice = {})
      : Error(ExitCode::data, what, why, advice) {}
};

/// Refusal: the step or answer asked for would not be covered by the privacy guarantee.
class PrivacyError : public Error {
 public:
  explicit PrivacyError(std::string_view what, std::string_view why = {}, std::string_view advice = {})
      : Error(ExitCode::privacy, what, why, advice) {}
};

/// Launch or communication failed, on this rank or another.
class CommError : public Error {
 public:
  explicit CommError(std::string_view what, std::string_view why = {}, std::string_view advice = {})
      : Error(ExitCode::communication, what, why, advice) {}
};

}  // namespace ripieno
