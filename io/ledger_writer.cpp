#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/ledger_writer.hpp>
#include <ripieno/io/run_owner.hpp>
#include <ripieno/io/staging_folder.hpp>
#include <ripieno/io/unique_fd.hpp>
#include <thread>
#include <utility>

namespace ripieno::io {
namespace {

[[noreturn]] void fail_errno(const std::string& what) {
  throw PrivacyError(what, std::strerror(errno), "no step may go on unrecorded; mend the file system and resume");
}

UniqueFd open_fd(const std::filesystem::path& path, int flags) {
  return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC));
}

/// Removes a file at its end.
class Removal {
 public:
  explicit Removal(const std::string& path) : path_(path) {}
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;
  ~Removal() { ::unlink(path_.c_str()); }

 private:
  const std::string& path_;
};

void write_all(int fd, const std::string& text, const std::filesystem::path& path) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::write(fd, text.data() + written, text.size() - written);
    if (n <= 0) fail_errno("cannot write to " + path.string());
    written += static_cast<std::size_t>(n);
  }
}

/// The file, appended to and synced; knows where the chain stands.
class LedgerFile {
 public:
  LedgerFile(std::filesystem::path path, UniqueFd fd, std::int64_t length)
      : path_(std::move(path)), fd_(std::move(fd)), length_(length), owner_(claim()), staging_(path_.parent_path()) {}

  /// The file gets its name once `text` is in it: a crash leaves a ledger that can be resumed, or none.
  static LedgerFile create(const std::filesystem::path& path, const std::string& text) {
    std::string unnamed = path.string() + ".XXXXXX";
    UniqueFd fd(::mkostemp(unnamed.data(), O_APPEND | O_CLOEXEC));
    if (!fd.is_open()) fail_errno("cannot create " + path.string());
    const Removal removal(unnamed);
    write_all(fd.get(), text, unnamed);
    if (::fchmod(fd.get(), 0644) != 0 || ::fsync(fd.get()) != 0) fail_errno("cannot sync " + unnamed);
    if (::link(unnamed.c_str(), path.c_str()) == 0)
      return {path, std::move(fd), static_cast<std::int64_t>(text.size())};
    if (errno != EEXIST) fail_errno("cannot create " + path.string());
    throw PrivacyError("there is a ledger at " + path.string(), "a new run would hide what it has spent",
                       "resume that run or choose another folder");
  }

  /// Only once the file is locked does it make sense to look where it ends: `expect` says where.
  static LedgerFile reopen(const std::filesystem::path& path) {
    UniqueFd fd = open_fd(path, O_WRONLY | O_APPEND);
    if (!fd.is_open()) fail_errno("cannot open " + path.string());
    return {path, std::move(fd), 0};
  }
  void expect(std::int64_t length) noexcept { length_ = length; }

  /// Appends and syncs, whole or not at all as far as the caller may believe.
  void append(const std::string& text) {
    check_ours();
    write_all(fd_.get(), text, path_);
    if (::fdatasync(fd_.get()) != 0) fail_errno("cannot sync " + path_.string());
    // Who takes the run over says so first and reads the ledger then: this record either was there to be read, or does
    // not count as written.
    if (!owner_.still_owns()) refuse("another process took it over");
    length_ += static_cast<std::int64_t>(text.size());
  }

  /// A new name is durable only once its folder is.
  void sync_name() const {
    if (::fsync(fd_.get()) != 0) fail_errno("cannot sync " + path_.string());
    const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
    const UniqueFd fd = open_fd(folder, O_RDONLY | O_DIRECTORY);
    if (!fd.is_open() || ::fsync(fd.get()) != 0) fail_errno("cannot sync folder " + folder.string());
  }

  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  [[nodiscard]] const StagingFolder& staging() const noexcept { return staging_; }

 private:
  /// Locks the file and puts this process into its owner file. PrivacyError when another process is at work on it.
  [[nodiscard]] RunOwner claim() {
    const OwnerRecord self = this_process();
    const std::optional<OwnerRecord> owner = read_owner(path_);
    if (owner) refuse_live_owner(path_, self, *owner);
    const bool succeeds = owner && takes_over(self, *owner);
    constexpr int k_patience_s = 5;  // the start of this job before the last may need a moment to end
    if (lock(succeeds ? k_patience_s : 0)) return {path_, self};
    if (!succeeds) {
      throw PrivacyError("another process writes to " + path_.string(),
                         owner ? owner->text() : "two runs must not share a ledger", "wait for it to end, or stop it");
    }
    log::warning("taking " + path_.string() + " over from " + owner->text() + ", which has not ended");
    RunOwner fence(path_, self);  // from here on that process cannot confirm a record
    replace_file();
    return fence;
  }

  /// False when another process still holds the lock after `patience_s`. File systems without locks leave only the
  /// owner file and the checks around each append.
  [[nodiscard]] bool lock(int patience_s) const {
    for (int waited = 0; ::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++waited) {
      if (waited == patience_s) return false;
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    return true;
  }

  /// Puts a copy in the file's place, so that what an orphan of a lost node still writes goes nowhere.
  void replace_file() {
    const std::filesystem::path copy = path_.string() + ".new";
    std::error_code error;
    std::filesystem::copy_file(path_, copy, std::filesystem::copy_options::overwrite_existing, error);
    if (error) {
      throw PrivacyError("cannot copy " + path_.string(), error.message(), "mend the file system and resume");
    }
    UniqueFd fd = open_fd(copy, O_WRONLY | O_APPEND);
    if (!fd.is_open() || ::fsync(fd.get()) != 0) fail_errno("cannot sync " + copy.string());
    if (::rename(copy.c_str(), path_.c_str()) != 0) fail_errno("cannot replace " + path_.string());
    fd_ = std::move(fd);
    sync_name();
    if (!lock(0)) throw PrivacyError("another process writes to " + path_.string(), "two runs must not share a ledger");
  }

  void check_ours() const {
    struct stat held {};
    struct stat named {};
    if (::fstat(fd_.get(), &held) != 0) fail_errno("cannot inspect " + path_.string());
    const bool same = ::stat(path_.c_str(), &named) == 0 && named.st_ino == held.st_ino && named.st_dev == held.st_dev;
    if (!same) refuse("the path names another file now");
    if (held.st_size != length_) {
      refuse("it has " + std::to_string(held.st_size) + " bytes where this writer left " + std::to_string(length_));
    }
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw PrivacyError("ledger " + path_.string() + " is no longer this run's", why,
                       "another process took the run over; this one must not go on");
  }

  std::filesystem::path path_;
  UniqueFd fd_;
  std::int64_t length_;
  RunOwner owner_;
  StagingFolder staging_;
};

}  // namespace

class LedgerWriter::Impl {
 public:
  /// Where the segment stands: `next_step` of segment `segment`, `records` charged in the file so far.
  struct Position {
    std::int64_t segment = 1;
    std::int64_t next_step = 0;
    std::int64_t records = 0;
    std::int64_t max_records = 0;
    ledger::ChainHash head{};
  };

  Impl(LedgerFile file, const Position& position)
      : file_(std::move(file)),
        segment_(position.segment),
        first_step_(position.next_step),
        next_step_(position.next_step),
        durable_end_(position.next_step),
        first_records_(position.records),
        max_records_(position.max_records),
        head_(position.head),
        length_(file_.length()),
        thread_([this] { run(); }) {}

  ~Impl() {
    {
      const std::scoped_lock lock(mutex_);
      closing_ = true;
    }
    work_.notify_one();
    thread_.join();
    if (failure_ && !told_) log_failure();
  }

  void begin(std::int64_t step) {
    {
      const std::scoped_lock lock(mutex_);
      rethrow_failure();
      if (step != next_step_) {
        throw PrivacyError("step " + std::to_string(step) + " cannot begin",
                           "the next step of the ledger is " + std::to_string(next_step_));
      }
      if (first_records_ + (next_step_ - first_step_) >= max_records_) {
        throw PrivacyError("the ledger holds all " + std::to_string(max_records_) + " steps of the plan",
                           "one more would exceed its epsilon", "stop here, or resume under a plan with more steps");
      }
      ++next_step_;
    }
    work_.notify_one();
  }

  bool durable(std::int64_t step) const {
    const std::scoped_lock lock(mutex_);
    if (step >= first_step_ && step < durable_end_) return true;
    rethrow_failure();
    return false;
  }

  void wait(std::int64_t step) const {
    std::unique_lock lock(mutex_);
    if (step < first_step_ || step >= next_step_) {
      throw PrivacyError("step " + std::to_string(step) + " was not begun", "the ledger does not record it");
    }
    done_.wait(lock, [&] { return step < durable_end_ || failure_; });
    if (step >= durable_end_) rethrow_failure();
  }

  std::string head() const {
    const std::scoped_lock lock(mutex_);
    return ledger::hash_text(head_);
  }
  std::int64_t length() const {
    const std::scoped_lock lock(mutex_);
    return length_;
  }
  std::int64_t records() const {
    const std::scoped_lock lock(mutex_);
    return first_records_ + (durable_end_ - first_step_);
  }
  std::int64_t segment() const noexcept { return segment_; }
  const StagingFolder& staging() const noexcept { return file_.staging(); }

 private:
  void rethrow_failure() const {
    if (!failure_) return;
    told_ = true;
    std::rethrow_exception(failure_);
  }

  void log_failure() const noexcept {
    try {
      std::rethrow_exception(failure_);
    } catch (const std::exception& e) {
      log::error(e.what());
    } catch (...) {
      log::error("the ledger's writer failed");
    }
  }

  void run() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for the main thread and must not cut a write short
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return closing_ || next_step_ > durable_end_; });
      if (next_step_ == durable_end_) return;
      if (!append_next(lock)) return;
    }
  }

  /// Writes and syncs the record of step `durable_end_`; the lock is released meanwhile. One record a write: a crash
  /// then tears one line at most. False after a failure.
  bool append_next(std::unique_lock<std::mutex>& lock) {
    const std::string text = ledger::step_text({.segment = segment_, .step = durable_end_});
    const ledger::ChainHash head = ledger::chain_hash(head_, text);
    lock.unlock();
    std::exception_ptr failure;
    try {
      file_.append(ledger::seal_line(text, head));
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    done_.notify_all();
    if (failure) return false;
    head_ = head;
    length_ = file_.length();
    ++durable_end_;
    return true;
  }

  LedgerFile file_;
  const std::int64_t segment_;
  const std::int64_t first_step_;
  std::int64_t next_step_;    // the first step that was not begun
  std::int64_t durable_end_;  // the first step that is not durable
  const std::int64_t first_records_;
  const std::int64_t max_records_;
  ledger::ChainHash head_;
  std::int64_t length_;
  bool closing_ = false;
  std::exception_ptr failure_;
  mutable bool told_ = false;  // a caller has had the failure
  mutable std::mutex mutex_;
  std::condition_variable work_;
  mutable std::condition_variable done_;
  std::thread thread_;  // last: it uses all the others
};

namespace {

void check_nonce(const std::string& nonce_hash) {
  if (nonce_hash.size() == 32 && nonce_hash.find_first_not_of("0123456789abcdef") == std::string::npos) return;
  throw UsageError("nonce hash '" + nonce_hash + "'", "must be 32 lower-case hexadecimal digits");
}

ledger::SegmentHeader segment_header(std::int64_t index, const PrivacyPlan& plan, const SegmentStart& start,
                                     std::int64_t torn_bytes) {
  check_nonce(start.nonce_hash);
  if (plan.has_pattern()) check_nonce(start.pattern);
  if (start.first_step < 0) throw UsageError("first step " + std::to_string(start.first_step), "must not be negative");
  return {.index = index,
          .plan = plan,
          .nonce_hash = start.nonce_hash,
          .first_step = start.first_step,
          .pattern = start.pattern,
          .torn_bytes = torn_bytes,
          .build = ledger::this_build()};
}

std::string bytes_at(const std::filesystem::path& path, std::int64_t offset, std::int64_t count) {
  std::string bytes(static_cast<std::size_t>(count), '\0');
  const UniqueFd fd = open_fd(path, O_RDONLY);
  if (!fd.is_open() || ::pread(fd.get(), bytes.data(), bytes.size(), offset) != static_cast<ssize_t>(bytes.size())) {
    fail_errno("cannot read " + path.string());
  }
  return bytes;
}

}  // namespace

LedgerWriter LedgerWriter::create(const std::filesystem::path& path, const PrivacyPlan& plan,
                                  const SegmentStart& start) {
  const std::string header = ledger::header_text({plan.dataset_id(), plan.num_examples()});
  const std::string segment = ledger::segment_text(segment_header(1, plan, start, 0));
  const ledger::ChainHash header_hash = ledger::chain_hash({}, header);
  const ledger::ChainHash head = ledger::chain_hash(header_hash, segment);
  LedgerFile file = LedgerFile::create(path, ledger::seal_line(header, header_hash) + ledger::seal_line(segment, head));
  file.sync_name();
  return LedgerWriter(std::make_unique<Impl>(
      std::move(file),
      Impl::Position{
          .segment = 1, .next_step = start.first_step, .records = 0, .max_records = plan.max_records(), .head = head}));
}

LedgerWriter LedgerWriter::append_segment(const std::filesystem::path& path, const PrivacyPlan& plan,
                                          const SegmentStart& start, const std::function<void()>& once_owned) {
  LedgerFile file = LedgerFile::reopen(path);
  once_owned();
  const ledger::Ledger existing = ledger::read(path);
  if (existing.header.dataset_id != plan.dataset_id() || existing.header.num_examples != plan.num_examples()) {
    throw PrivacyError("ledger " + path.string() + " is over dataset " + existing.header.dataset_id + " of " +
                           std::to_string(existing.header.num_examples) + " examples",
                       "the plan is over " + plan.dataset_id() + " of " + std::to_string(plan.num_examples()),
                       "resume with the data that the run began with");
  }
  const auto index = static_cast<std::int64_t>(existing.segments.size()) + 1;
  const std::string text = ledger::segment_text(segment_header(index, plan, start, existing.torn_bytes));
  const std::string torn = bytes_at(path, existing.whole_bytes, existing.torn_bytes);
  const ledger::ChainHash head = ledger::chain_hash(existing.head, torn + text);
  file.expect(existing.whole_bytes + existing.torn_bytes);
  file.append(ledger::seal_line(text, head));
  return LedgerWriter(std::make_unique<Impl>(std::move(file), Impl::Position{.segment = index,
                                                                             .next_step = start.first_step,
                                                                             .records = existing.charged(),
                                                                             .max_records = plan.max_records(),
                                                                             .head = head}));
}

LedgerWriter LedgerWriter::continue_segment(const std::filesystem::path& path, const PrivacyPlan& plan,
                                            const std::string& nonce_hash, std::int64_t next_step) {
  LedgerFile file = LedgerFile::reopen(path);
  const ledger::Ledger existing = ledger::read(path);
  const auto refuse = [&](const std::string& why) {
    throw PrivacyError("the last segment of " + path.string() + " cannot go on", why,
                       "open a new segment under fresh keys");
  };
  if (existing.segments.empty()) refuse("there is none");
  const ledger::Segment& last = existing.segments.back();
  if (existing.torn_bytes > 0) refuse("its last record is torn");
  if (last.header.plan.hash() != plan.hash()) refuse(join(plan_differences(last.header.plan, plan)));
  if (last.header.nonce_hash != nonce_hash) refuse("its keys are others");
  if (last.next_step() != next_step) {
    refuse("its next step is " + std::to_string(last.next_step()) + ", the checkpoint's is " +
           std::to_string(next_step));
  }
  file.expect(existing.whole_bytes);
  return LedgerWriter(std::make_unique<Impl>(std::move(file), Impl::Position{.segment = last.header.index,
                                                                             .next_step = next_step,
                                                                             .records = existing.charged(),
                                                                             .max_records = plan.max_records(),
                                                                             .head = existing.head}));
}

LedgerWriter::LedgerWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LedgerWriter::LedgerWriter(LedgerWriter&&) noexcept = default;
LedgerWriter& LedgerWriter::operator=(LedgerWriter&&) noexcept = default;
LedgerWriter::~LedgerWriter() = default;

void LedgerWriter::begin(std::int64_t step) { impl_->begin(step); }
bool LedgerWriter::durable(std::int64_t step) const { return impl_->durable(step); }
void LedgerWriter::wait(std::int64_t step) const { impl_->wait(step); }
std::string LedgerWriter::head() const { return impl_->head(); }
std::int64_t LedgerWriter::length() const { return impl_->length(); }
std::int64_t LedgerWriter::records() const { return impl_->records(); }
std::int64_t LedgerWriter::segment() const { return impl_->segment(); }
const StagingFolder& LedgerWriter::staging() const { return impl_->staging(); }

}  // namespace ripieno::io
