#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>

namespace ripieno {

/// Says what the process is doing for as long as it lives, so that an error or a watchdog can name step and operation
/// (invariant P10):
/// ```
/// const OperationScope scope("sum_gradients", step);
/// ```
/// Scopes nest. They may be opened by any thread and cost a lock and a small allocation.
class OperationScope {
 public:
  explicit OperationScope(std::string name, std::optional<std::int64_t> step = std::nullopt);
  ~OperationScope();
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

  struct Note {
    std::string name;
    std::optional<std::int64_t> step;
  };

 private:
  std::list<Note>::iterator note_;
  int exceptions_at_start_;
};

/// The open scopes, outermost first, after the last step that one of them named: "step 12, sum_gradients,
/// MPI_Allreduce". Empty when none is open.
[[nodiscard]] std::string current_operation();

/// The last step that an open scope named.
[[nodiscard]] std::optional<std::int64_t> current_step();

/// What `current_operation` was at the innermost scope that the last exception left. For a catch block outside the
/// scopes; a new scope opened in normal running clears it.
[[nodiscard]] std::string failed_operation();

}  // namespace ripieno
