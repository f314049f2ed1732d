#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/training/batch_job.hpp>
#include <string>

namespace ripieno {
namespace {

/// For what is not measured: the agreement of the ranks, MPI's end, the signals of Slurm's own timer.
constexpr double k_least_margin_s = 5;

std::optional<std::int64_t> environment_number(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  std::int64_t value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

}  // namespace

void refuse_endless_restarts(int max_restarts) {
  const std::int64_t restarts = environment_number("SLURM_RESTART_COUNT").value_or(0);
  if (restarts <= max_restarts) return;
  throw CommError("this job was requeued " + std::to_string(restarts) + " times",
                  "--max-restarts allows " + std::to_string(max_restarts),
                  "see in its log why it does not finish, then submit it again; the run in --out goes on");
}

TimeLimit::TimeLimit() : last_call_(Clock::now()) {
  const auto end = environment_number("SLURM_JOB_END_TIME");
  if (!end) return;
  const auto left = std::chrono::system_clock::from_time_t(*end) - std::chrono::system_clock::now();
  end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
}

bool TimeLimit::ends_soon(double after_s) {
  const auto now = Clock::now();
  longest_step_s_ = std::max(longest_step_s_, std::chrono::duration<double>(now - last_call_).count());
  last_call_ = now;
  if (!end_) return false;
  const double left_s = std::chrono::duration<double>(*end_ - now).count();
  return left_s < k_least_margin_s + 2 * (longest_step_s_ + after_s);
}

}  // namespace ripieno
