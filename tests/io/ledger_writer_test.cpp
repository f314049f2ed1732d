#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/io/ledger_writer.hpp>
#include <thread>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

PlanOptions plan_options() {
  return {.num_examples = 60000,
          .dataset_id = "7d9f5d3e",
          .expected_batch = 600,
          .steps = 1'000'000,
          .noise_multiplier = 1,
          .clipping_norm = 1,
          .delta = 1e-5};
}

std::string nonce(char digit) { return std::string(32, digit); }

class LedgerWriterTest : public testing::Test {
 protected:
  LedgerWriterTest() : folder_(testing::TempDir() + "ledger_writer_" + std::to_string(::getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = folder_ / "ledger.jsonl";
    log::set_level(log::Level::off);
  }
  ~LedgerWriterTest() override { fs::remove_all(folder_); }

  void append_bytes(const std::string& bytes) const { std::ofstream(path_, std::ios::app | std::ios::binary) << bytes; }

  /// A ledger with steps 0 … count - 1.
  LedgerWriter started(std::int64_t count) const {
    LedgerWriter writer = LedgerWriter::create(path_, plan_, {.nonce_hash = nonce('a')});
    for (std::int64_t step = 0; step < count; ++step) writer.begin(step);
    if (count > 0) writer.wait(count - 1);
    return writer;
  }

  fs::path folder_;
  fs::path path_;
  PrivacyPlan plan_{plan_options()};
};

TEST_F(LedgerWriterTest, WritesWhatTheParserReads) {
  {
    LedgerWriter writer = started(3);
    EXPECT_TRUE(writer.durable(2));
    EXPECT_FALSE(writer.durable(3));
    EXPECT_EQ(writer.records(), 3);
    const ledger::Ledger ledger = ledger::read(path_);
    EXPECT_EQ(ledger.charged(), 3);
    EXPECT_EQ(writer.head(), ledger::hash_text(ledger.head));
    EXPECT_EQ(writer.length(), ledger.whole_bytes);
    EXPECT_EQ(ledger.segments.at(0).header.plan, plan_);
    EXPECT_EQ(ledger.segments.at(0).header.nonce_hash, nonce('a'));
    writer.begin(3);  // queued when the writer goes away
  }
  EXPECT_EQ(ledger::read(path_).charged(), 4);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(
      status.st_mode & 0777, 0644 & ~[] {
        const mode_t mask = ::umask(0);
        ::umask(mask);
        return mask;
      }());
}

TEST_F(LedgerWriterTest, RefusesAnExistingLedger) {
  { const LedgerWriter writer = started(1); }
  EXPECT_THROW((void)LedgerWriter::create(path_, plan_, {.nonce_hash = nonce('b')}), PrivacyError);
  EXPECT_EQ(ledger::read(path_).charged(), 1);
}

TEST_F(LedgerWriterTest, StepsBeginInOrderAndOnce) {
  LedgerWriter writer = started(2);
  EXPECT_THROW(writer.begin(1), PrivacyError);
  EXPECT_THROW(writer.begin(3), PrivacyError);
  EXPECT_THROW(writer.wait(2), PrivacyError);
  writer.begin(2);
  writer.wait(2);
  EXPECT_EQ(ledger::read(path_).charged(), 3);
}

TEST_F(LedgerWriterTest, ThePlannedStepsAreACeilingOnRecords) {
  PlanOptions options = plan_options();
  options.steps = 3;
  options.reserve_steps = 1;
  const PrivacyPlan plan(options);
  {
    LedgerWriter writer = LedgerWriter::create(path_, plan, {.nonce_hash = nonce('a')});
    for (int step = 0; step < 3; ++step) writer.begin(step);
  }
  LedgerWriter writer = LedgerWriter::append_segment(path_, plan, {.nonce_hash = nonce('b'), .first_step = 2});
  writer.begin(2);
  EXPECT_THROW(writer.begin(3), PrivacyError);
}

TEST_F(LedgerWriterTest, AnOrphanNoticesThatTheFileGrew) {
  LedgerWriter writer = started(1);
  append_bytes("x");
  writer.begin(1);
  EXPECT_THROW(writer.wait(1), PrivacyError);
  EXPECT_THROW(writer.begin(2), PrivacyError) << "the failure is final";
  EXPECT_THROW((void)writer.durable(1), PrivacyError);
  EXPECT_TRUE(writer.durable(0));
}

TEST_F(LedgerWriterTest, AnOrphanNoticesThatTheFileWasReplaced) {
  LedgerWriter writer = started(1);
  fs::copy_file(path_, folder_ / "copy");
  fs::rename(folder_ / "copy", path_);
  writer.begin(1);
  EXPECT_THROW(writer.wait(1), PrivacyError);
  EXPECT_EQ(ledger::read(path_).charged(), 1);
}

TEST_F(LedgerWriterTest, AnOrphanNoticesThatTheFileWasRemoved) {
  LedgerWriter writer = started(1);
  fs::remove(path_);
  writer.begin(1);
  EXPECT_THROW(writer.wait(1), PrivacyError);
}

TEST_F(LedgerWriterTest, TwoWritersDoNotShareALedger) {
  const LedgerWriter writer = started(1);
  EXPECT_THROW((void)LedgerWriter::append_segment(path_, plan_, {.nonce_hash = nonce('b'), .first_step = 1}),
               PrivacyError);
}

TEST_F(LedgerWriterTest, AFailedWriteIsFinal) {
  LedgerWriter writer = started(1);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{static_cast<rlim_t>(writer.length() + 10), old.rlim_max};  // room for a part of the line
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  writer.begin(1);
  EXPECT_THROW(writer.wait(1), PrivacyError);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THROW(writer.begin(2), PrivacyError);
  EXPECT_EQ(ledger::read(path_).charged(), 2) << "the torn record counts";
}

TEST_F(LedgerWriterTest, ATornRecordStaysChargedAfterAResume) {
  { const LedgerWriter writer = started(5); }
  for (const std::string torn : {R"({"seg":1,"st)", "zero\n"}) {
    append_bytes(torn);
    const std::int64_t charged = ledger::read(path_).charged();
    LedgerWriter writer = LedgerWriter::append_segment(
        path_, plan_, {.nonce_hash = nonce(torn.back() == '\n' ? 'c' : 'b'), .first_step = 4});
    EXPECT_EQ(writer.records(), charged);
    writer.begin(4);
    writer.wait(4);
    EXPECT_EQ(ledger::read(path_).charged(), charged + 1);
    EXPECT_EQ(ledger::hash_text(ledger::read(path_).head), writer.head());
  }
  EXPECT_EQ(ledger::read(path_).segments.size(), 3);
}

TEST_F(LedgerWriterTest, ASegmentOverOtherDataIsRefused) {
  { const LedgerWriter writer = started(1); }
  PlanOptions options = plan_options();
  options.num_examples = 600;
  EXPECT_THROW(
      (void)LedgerWriter::append_segment(path_, PrivacyPlan(options), {.nonce_hash = nonce('b'), .first_step = 1}),
      PrivacyError);
}

TEST_F(LedgerWriterTest, Invariant_P4_OldKeysGoOnOnlyFromACleanStop) {
  { const LedgerWriter writer = started(5); }
  PlanOptions other = plan_options();
  other.clipping_norm = 2;
  const auto go_on = [&](const PrivacyPlan& plan, char digit, std::int64_t step) {
    return LedgerWriter::continue_segment(path_, plan, nonce(digit), step);
  };
  EXPECT_THROW((void)go_on(PrivacyPlan(other), 'a', 5), PrivacyError);
  EXPECT_THROW((void)go_on(plan_, 'b', 5), PrivacyError);
  EXPECT_THROW((void)go_on(plan_, 'a', 4), PrivacyError) << "a record beyond the checkpoint";
  {
    LedgerWriter writer = go_on(plan_, 'a', 5);
    writer.begin(5);
    writer.wait(5);
  }
  EXPECT_EQ(ledger::read(path_).segments.size(), 1);
  EXPECT_EQ(ledger::read(path_).charged(), 6);
  append_bytes("{");
  EXPECT_THROW((void)go_on(plan_, 'a', 6), PrivacyError) << "a torn record may have been a release";
}

/// What a crash may leave of the file: everything up to any byte, after which there is nothing, or zeros where a block
/// was allotted but not written.
TEST_F(LedgerWriterTest, Invariant_P2_CutAtAnyByteItHoldsEveryAcknowledgedStepAndAtMostOneMore) {
  constexpr std::int64_t k_steps = 12;
  std::vector<std::int64_t> length_of;  // length_of[n]: when n steps were acknowledged
  {
    LedgerWriter writer = LedgerWriter::create(path_, plan_, {.nonce_hash = nonce('a')});
    length_of.push_back(writer.length());
    for (std::int64_t step = 0; step < k_steps; ++step) {
      writer.begin(step);
      writer.wait(step);
      length_of.push_back(writer.length());
    }
  }
  std::ifstream file(path_, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_EQ(static_cast<std::int64_t>(whole.size()), length_of.back());
  const fs::path cut = folder_ / "cut.jsonl";
  for (auto length = static_cast<std::size_t>(length_of[0]); length <= whole.size(); ++length) {
    const auto durable = std::upper_bound(length_of.begin(), length_of.end(), static_cast<std::int64_t>(length));
    const auto acknowledged = durable - length_of.begin() - 1;
    const auto end_of_record = durable == length_of.end() ? whole.size() : static_cast<std::size_t>(*durable);
    for (const std::size_t zeros : {std::size_t{0}, end_of_record - length}) {
      std::ofstream(cut, std::ios::binary | std::ios::trunc) << whole.substr(0, length) << std::string(zeros, '\0');
      const std::int64_t charged = ledger::read(cut).charged();
      ASSERT_GE(charged, acknowledged) << length << " bytes, " << zeros << " zeros";
      ASSERT_LE(charged, acknowledged + 1) << length << " bytes, " << zeros << " zeros";
    }
  }
}

/// In a child: writes steps as fast as they become durable and sends one byte for each.
[[noreturn]] void write_until_killed(const fs::path& path, const PrivacyPlan& plan, const io::SegmentStart& start,
                                     bool fresh, int acknowledgements) {
  LedgerWriter writer =
      fresh ? LedgerWriter::create(path, plan, start) : LedgerWriter::append_segment(path, plan, start);
  for (std::int64_t step = start.first_step;; ++step) {
    writer.begin(step);
    writer.wait(step);
    if (::write(acknowledgements, "x", 1) != 1) ::_exit(1);
  }
}

/// Waits for so many bytes, or for the end of the writer; how many there were.
std::int64_t awaited(int fd, std::int64_t count) {
  std::int64_t got = 0;
  char byte = 0;
  while (got < count && ::read(fd, &byte, 1) == 1) ++got;
  return got;
}

/// Bytes that are still in the pipe after its writer has gone.
std::int64_t drained(int fd) {
  std::int64_t count = 0;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;) count += n;
  return count;
}

TEST_F(LedgerWriterTest, Invariant_P2_KilledAtAnyMomentItHoldsEveryAcknowledgedStepAndAtMostOneMore) {
  const int kills = std::getenv("RIPIENO_FULL") != nullptr ? 1000 : 40;
  std::mt19937_64 random(11);
  std::int64_t charged = 0;
  bool fresh = true;
  for (int kill = 0; kill < kills; ++kill) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    std::string digits = "00000000000000000000000000000000" + std::to_string(kill);
    const SegmentStart start{.nonce_hash = digits.substr(digits.size() - 32), .first_step = 0};
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_until_killed(path_, plan_, start, fresh, ends[1]);
    ::close(ends[1]);
    // So many steps first, however busy the machine is; then, within a few steps' time, at any moment. None at all: a
    // moment of the start.
    const auto steps = static_cast<std::int64_t>(random() % 4);
    std::int64_t acknowledged = awaited(ends[0], steps);
    ASSERT_EQ(acknowledged, steps) << "the child stopped by itself";
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child stopped by itself";
    acknowledged += drained(ends[0]);
    ::close(ends[0]);
    const bool began = fs::exists(path_) && fs::file_size(path_) > 0;
    if (fresh && !began) {
      ASSERT_EQ(acknowledged, 0);
      fs::remove(path_);
      continue;
    }
    fresh = false;
    const std::int64_t now = ledger::read(path_).charged();
    ASSERT_GE(now - charged, acknowledged) << "kill " << kill;
    ASSERT_LE(now - charged, acknowledged + 1) << "kill " << kill;
    charged = now;
  }
  EXPECT_GT(charged, kills) << "hardly any step was waited for, so the kills show little";
}

}  // namespace
}  // namespace ripieno::io
