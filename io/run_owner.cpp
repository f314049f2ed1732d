#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/io/run_owner.hpp>
#include <sstream>
#include <utility>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

fs::path owner_path(const fs::path& ledger) { return ledger.string() + ".owner"; }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// State and start time of a process (proc(5), fields 3 and 22).
struct ProcessStatus {
  char state = '?';
  std::int64_t start_time = 0;
};

std::optional<ProcessStatus> status_of(std::int64_t pid) {
  const std::string text = read_text("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = text.rfind(')');  // the name may hold blanks and parentheses
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStatus status;
  fields >> status.state;
  constexpr int k_fields_between = 18;
  std::string skipped;
  for (int i = 0; i < k_fields_between; ++i) fields >> skipped;
  fields >> status.start_time;
  if (!fields) return {};
  return status;
}

/// Whether the owner's process, on this host, still runs; a zombie does not.
bool is_alive(const OwnerRecord& owner) {
  if (const auto status = status_of(owner.pid)) {
    return status->state != 'Z' && (owner.start_time == 0 || status->start_time == owner.start_time);
  }
  return ::kill(static_cast<pid_t>(owner.pid), 0) == 0 || errno == EPERM;  // without /proc
}

bool same_job(const OwnerRecord& a, const OwnerRecord& b) {
  return !a.slurm_job_id.empty() && a.slurm_job_id == b.slurm_job_id;
}

std::string json_text(const OwnerRecord& owner) {
  const Json json = {{"host", owner.host},
                     {"pid", owner.pid},
                     {"start_time", owner.start_time},
                     {"slurm_job_id", owner.slurm_job_id},
                     {"slurm_restart_count", owner.restart_count}};
  return json.dump() + "\n";
}

}  // namespace

std::string OwnerRecord::text() const {
  std::string result = "process " + std::to_string(pid) + " on " + host;
  if (!slurm_job_id.empty()) result += ", Slurm job " + slurm_job_id + ", restart " + std::to_string(restart_count);
  return result;
}

OwnerRecord this_process() {
  OwnerRecord self{.host = host_name(), .pid = ::getpid(), .slurm_job_id = environment("SLURM_JOB_ID")};
  if (const auto status = status_of(self.pid)) self.start_time = status->start_time;
  const std::string restarts = environment("SLURM_RESTART_COUNT");  // unset at the first start
  std::from_chars(restarts.data(), restarts.data() + restarts.size(), self.restart_count);
  return self;
}

std::optional<OwnerRecord> read_owner(const fs::path& ledger) {
  const Json json = Json::parse(read_text(owner_path(ledger)), nullptr, false);
  try {
    if (!json.is_object()) return {};
    return OwnerRecord{.host = json.at("host").get<std::string>(),
                       .pid = json.at("pid").get<std::int64_t>(),
                       .start_time = json.at("start_time").get<std::int64_t>(),
                       .slurm_job_id = json.at("slurm_job_id").get<std::string>(),
                       .restart_count = json.at("slurm_restart_count").get<std::int64_t>()};
  } catch (const Json::exception&) {
    return {};
  }
}

bool takes_over(const OwnerRecord& self, const OwnerRecord& owner) {
  return same_job(self, owner) && self.restart_count > owner.restart_count;
}

void refuse_live_owner(const fs::path& ledger, const OwnerRecord& self, const OwnerRecord& owner) {
  if (takes_over(owner, self)) {
    throw PrivacyError("ledger " + ledger.string() + " belongs to a later start of this job", owner.text(),
                       "this process was requeued and must not go on");
  }
  const bool is_self = owner.host == self.host && owner.pid == self.pid;
  if (is_self || takes_over(self, owner) || owner.host != self.host || !is_alive(owner)) return;
  throw PrivacyError("another run writes to " + ledger.string(), owner.text(), "wait for it to end, or stop it");
}

RunOwner::RunOwner(const fs::path& ledger, const OwnerRecord& self) : ledger_(ledger), self_(self) {
  const fs::path path = owner_path(ledger);
  const fs::path fresh = path.string() + ".new";  // renamed when whole, so that nobody reads half a file
  const std::string text = json_text(self);
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!written || ::rename(fresh.c_str(), path.c_str()) != 0) {
    throw PrivacyError("cannot write " + path.string(), std::strerror(written ? errno : error),
                       "mend the file system and resume");
  }
}

RunOwner::RunOwner(RunOwner&& other) noexcept
    : ledger_(std::exchange(other.ledger_, {})), self_(std::move(other.self_)) {}

RunOwner& RunOwner::operator=(RunOwner&& other) noexcept {
  std::swap(ledger_, other.ledger_);
  std::swap(self_, other.self_);
  return *this;
}

bool RunOwner::still_owns() const { return read_owner(ledger_) == self_; }

RunOwner::~RunOwner() {
  if (ledger_.empty()) return;
  try {
    if (still_owns()) fs::remove(owner_path(ledger_));
  } catch (const std::exception&) {  // a file left behind names a process that has ended, which does no harm
  }
}

}  // namespace ripieno::io
