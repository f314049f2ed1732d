#include <array>
#include <cstdint>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/framework/training/collectively.hpp>
#include <span>

namespace ripieno {

void agree_on_failure(const Communicator& communicator, const std::exception_ptr& failure) {
  // The lowest failing rank has the largest size - rank; its exit code rides in the low digits.
  constexpr std::int64_t k_code_digits = 1000;
  FailureReport report;
  std::int64_t claim = 0;
  if (failure) {
    report = describe_failure(failure);
    claim = (communicator.size() - communicator.rank()) * k_code_digits + static_cast<int>(report.code);
  }
  std::array<std::int64_t, 1> winner{claim};
  communicator.allreduce_max(std::span<std::int64_t>(winner));
  if (winner[0] == 0) return;
  if (winner[0] == claim && !report.already_reported) log::error(report.text);
  throw ReportedError(static_cast<ExitCode>(winner[0] % k_code_digits));
}

}  // namespace ripieno
