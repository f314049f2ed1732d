#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/ledger_writer.hpp>
#include <ripieno/io/run_owner.hpp>
#include <thread>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const PrivacyPlan& plan() {
  static const PrivacyPlan plan({.num_examples = 60000,
                                 .dataset_id = "7d9f5d3e",
                                 .expected_batch = 600,
                                 .steps = 1000,
                                 .noise_multiplier = 1,
                                 .clipping_norm = 1,
                                 .delta = 1e-5});
  return plan;
}

SegmentStart start(char digit, std::int64_t first_step = 0) {
  return {.nonce_hash = std::string(32, digit), .first_step = first_step};
}

class RunOwnerTest : public testing::Test {
 protected:
  RunOwnerTest() : folder_(fs::path(testing::TempDir()) / ("run_owner_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = folder_ / "ledger.jsonl";
    set_job("", 0);
  }
  ~RunOwnerTest() override {
    set_job("", 0);
    fs::remove_all(folder_);
  }

  static void set_job(const std::string& job, int restarts) {
    ::unsetenv("SLURM_JOB_ID");
    ::unsetenv("SLURM_RESTART_COUNT");
    if (!job.empty()) ::setenv("SLURM_JOB_ID", job.c_str(), 1);
    if (restarts > 0) ::setenv("SLURM_RESTART_COUNT", std::to_string(restarts).c_str(), 1);
  }

  /// A child that holds the ledger until it is killed; returns once it owns it. SIGUSR1 makes it publish a file, record
  /// a step and end: with status 4 when both are refused.
  pid_t child_that_owns() const {
    const pid_t child = ::fork();
    if (child == 0) {
      static volatile std::sig_atomic_t asked = 0;
      std::signal(SIGUSR1, [](int) { asked = 1; });
      LedgerWriter writer = LedgerWriter::create(path_, plan(), start('a'));
      while (asked == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      try {
        writer.staging().publish(path_.parent_path() / "model.h5", Overwrite::replace, write_orphan);
        ::_exit(1);
      } catch (const PrivacyError&) {
      }
      try {
        writer.begin(0);
        writer.wait(0);
      } catch (const PrivacyError& e) {
        ::_exit(static_cast<int>(e.code()));
      }
      ::_exit(0);
    }
    while (!read_owner(path_) || ledger::read(path_).segments.empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return child;
  }

  static void write_orphan(const fs::path& made) { std::ofstream(made) << "orphan"; }

  static void end(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  std::string refusal(const OwnerRecord& self, const OwnerRecord& owner) const {
    try {
      refuse_live_owner(path_, self, owner);
    } catch (const PrivacyError& e) {
      return e.what();
    }
    return "";
  }

  fs::path folder_;
  fs::path path_;
};

TEST_F(RunOwnerTest, TheFileNamesTheProcessAndGoesWithIt) {
  set_job("88", 3);
  const fs::path file = path_.string() + ".owner";
  {
    const RunOwner owner(path_, this_process());
    const std::optional<OwnerRecord> read = read_owner(path_);
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, this_process());
    EXPECT_EQ(read->pid, ::getpid());
    EXPECT_GT(read->start_time, 0);
    EXPECT_THAT(read->text(), HasSubstr("Slurm job 88, restart 3"));
    struct stat status {};
    ASSERT_EQ(::stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
  }
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(RunOwnerTest, TheFileOfASuccessorStays) {
  OwnerRecord successor = this_process();
  ++successor.restart_count;
  std::optional<RunOwner> first(std::in_place, path_, this_process());
  const RunOwner next(path_, successor);
  first.reset();
  EXPECT_EQ(read_owner(path_), successor);
}

TEST_F(RunOwnerTest, WhatIsNoOwnerRecordIsNone) {
  EXPECT_FALSE(read_owner(path_));
  for (const char* text : {"", "{}", "[]", "{\"host\":3", "{\"host\":\"a\",\"pid\":\"b\"}"}) {
    std::ofstream(path_.string() + ".owner") << text;
    EXPECT_FALSE(read_owner(path_)) << text;
  }
}

TEST_F(RunOwnerTest, ALiveOwnerOnThisHostIsRefusedByName) {
  const OwnerRecord self = this_process();
  OwnerRecord parent = self;
  parent.pid = ::getppid();
  parent.start_time = 0;  // not known: only the pid counts
  EXPECT_THAT(refusal(self, parent), HasSubstr("process " + std::to_string(parent.pid) + " on " + self.host));
  parent.start_time = 1;  // the pid is used again, by a process that began later
  EXPECT_EQ(refusal(self, parent), "");
  parent.start_time = 0;
  parent.host += "-other";
  EXPECT_EQ(refusal(self, parent), "") << "nobody can look there";
  EXPECT_EQ(refusal(self, self), "");
}

TEST_F(RunOwnerTest, TheSameJobTakesOverAfterARequeueAndNotBackwards) {
  OwnerRecord first = this_process();
  first.pid = ::getppid();
  first.start_time = 0;
  first.slurm_job_id = "88";
  OwnerRecord second = first;
  second.pid = ::getpid();
  second.restart_count = 1;
  EXPECT_TRUE(takes_over(second, first));
  EXPECT_EQ(refusal(second, first), "");
  EXPECT_THAT(refusal(first, second), HasSubstr("later start of this job"));
  second.slurm_job_id = "89";
  EXPECT_FALSE(takes_over(second, first));
  EXPECT_THAT(refusal(second, first), HasSubstr("another run writes"));
}

TEST_F(RunOwnerTest, AWriterRefusesALiveOneAndSucceedsADeadOne) {
  const pid_t child = child_that_owns();
  try {
    (void)LedgerWriter::append_segment(path_, plan(), start('b'));
    ADD_FAILURE() << "two writers on one ledger";
  } catch (const PrivacyError& e) {
    EXPECT_THAT(e.what(), HasSubstr("process " + std::to_string(child)));
  }
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_NO_THROW((void)LedgerWriter::append_segment(path_, plan(), start('b'))) << "a zombie is dead";
  end(child);
  EXPECT_FALSE(read_owner(path_)) << "gone with its writer";
}

TEST_F(RunOwnerTest, ARequeuedJobWaitsForItsPredecessorToEnd) {
  set_job("88", 0);
  const pid_t child = child_that_owns();
  set_job("88", 1);
  std::thread killer([child] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    end(child);
  });
  const LedgerWriter writer = LedgerWriter::append_segment(path_, plan(), start('b'));
  killer.join();
  EXPECT_EQ(writer.segment(), 2);
  EXPECT_EQ(read_owner(path_)->restart_count, 1);
}

TEST_F(RunOwnerTest, WhatIsFoundOnceTheRunIsOwnedLeavesTheLedgerAsItIs) {
  { const LedgerWriter writer = LedgerWriter::create(path_, plan(), start('a')); }
  const auto finished = [this] {
    EXPECT_EQ(read_owner(path_)->pid, ::getpid());
    throw DataError("finished by another process");
  };
  EXPECT_THROW((void)LedgerWriter::append_segment(path_, plan(), start('b'), finished), DataError);
  EXPECT_EQ(ledger::read(path_).segments.size(), 1U);
  EXPECT_FALSE(read_owner(path_)) << "the run is nobody's again";
}

TEST_F(RunOwnerTest, Invariant_P4_AnOrphanOfALostNodeCanRecordAndPublishNothingMore) {
  set_job("88", 0);
  const pid_t orphan = child_that_owns();
  set_job("88", 1);
  LedgerWriter writer = LedgerWriter::append_segment(path_, plan(), start('b'));
  ::kill(orphan, SIGUSR1);
  int status = 0;
  ::waitpid(orphan, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ExitCode::privacy));
  EXPECT_FALSE(fs::exists(folder_ / "model.h5"));
  writer.begin(0);
  EXPECT_NO_THROW(writer.wait(0));
  const ledger::Ledger book = ledger::read(path_);
  ASSERT_EQ(book.segments.size(), 2U);
  EXPECT_EQ(book.segments[0].records, 0);
  EXPECT_EQ(book.segments[1].records, 1);
}

TEST_F(RunOwnerTest, Invariant_P4_WhoIsOvertakenWhileItWritesAFileDoesNotPublishIt) {
  const StagingFolder first(folder_);
  const fs::path file = folder_ / "step-1.h5";
  first.publish(file, Overwrite::replace, [](const fs::path& made) { std::ofstream(made) << "first"; });
  std::optional<StagingFolder> second;
  EXPECT_THROW(first.publish(file, Overwrite::replace,
                             [&](const fs::path& made) {
                               write_orphan(made);
                               second.emplace(folder_);
                             }),
               PrivacyError);
  EXPECT_THROW(first.publish(file, Overwrite::replace, write_orphan), PrivacyError);
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "first");
  second->publish(file, Overwrite::replace, [](const fs::path& made) { std::ofstream(made) << "second"; });
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "second");
  second.reset();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "no folder is left behind";
}

TEST_F(RunOwnerTest, Invariant_P2_ARecordIsNotConfirmedOnceAnotherProcessOwnsTheRun) {
  LedgerWriter writer = LedgerWriter::create(path_, plan(), start('a'));
  writer.begin(0);
  EXPECT_NO_THROW(writer.wait(0));
  OwnerRecord successor = this_process();
  successor.host = "elsewhere";
  const RunOwner owner(path_, successor);
  writer.begin(1);
  EXPECT_THROW(writer.wait(1), PrivacyError);
}

}  // namespace
}  // namespace ripieno::io
