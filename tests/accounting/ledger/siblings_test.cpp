#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ripieno/accounting/ledger/siblings.hpp>

#include "ledger_fixture.hpp"

namespace ripieno::ledger {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::Builder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::plan_options;

class SiblingsTest : public ::testing::Test {
 protected:
  SiblingsTest() : root_(fs::path(::testing::TempDir()) / ("siblings_" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
  }
  ~SiblingsTest() override { fs::remove_all(root_); }

  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << text;
    return root_ / name;
  }

  static std::string ledger_text(char nonce, const std::string& dataset_id = plan_options().dataset_id) {
    PlanOptions options = plan_options();
    options.dataset_id = dataset_id;
    return Builder(options).segment(options, 0, nonce).steps(0, 3).text;
  }

  static std::vector<std::string> warnings(const std::vector<std::string>& paths) {
    std::vector<Ledger> ledgers;
    for (const std::string& path : paths) ledgers.push_back(read(path));
    return warnings_about_siblings(analyse(std::move(ledgers)));
  }

  fs::path root_;
};

TEST_F(SiblingsTest, LedgersInTheSameFolderAreNamedUnlessGiven) {
  const std::string first = write("run/ledger.jsonl", ledger_text('a'));
  const std::string second = write("run/tuning.jsonl", ledger_text('b'));
  EXPECT_THAT(warnings({first}), ElementsAre(AllOf(HasSubstr("another ledger"), HasSubstr("run/tuning.jsonl"))));
  EXPECT_THAT(warnings({first, second}), IsEmpty());
  EXPECT_THAT(warnings({first, root_ / "run/../run/tuning.jsonl"}), IsEmpty()) << "another spelling of a given one";
}

TEST_F(SiblingsTest, LedgersOfRunsBesideThisOneAreNamed) {
  const std::string first = write("runs/a/ledger.jsonl", ledger_text('a'));
  write("runs/b/ledger.jsonl", ledger_text('b'));
  write("runs/c/ledger.jsonl", ledger_text('c'));
  EXPECT_THAT(warnings({first}), ElementsAre(AllOf(HasSubstr("other ledgers"), HasSubstr("b/ledger.jsonl, "),
                                                   HasSubstr("c/ledger.jsonl"))));
}

TEST_F(SiblingsTest, OtherDataAndOtherFilesAreNot) {
  const std::string first = write("run/ledger.jsonl", ledger_text('a'));
  write("run/other.jsonl", ledger_text('b', "another-dataset"));
  write("run/metrics.jsonl", "{\"step\":1}\n");
  write("run/empty.jsonl", "");
  write("run/garbage.jsonl", std::string(100000, 'x'));
  write("run/false.jsonl", seal_line("{\"dataset_id\":3", {}));
  ASSERT_EQ(::mkfifo((root_ / "run/pipe.jsonl").c_str(), 0600), 0);
  EXPECT_THAT(warnings({first}), IsEmpty());
}

TEST_F(SiblingsTest, ALongListIsCutShort) {
  const std::string first = write("run/ledger.jsonl", ledger_text('a'));
  for (int i = 0; i < 8; ++i) write("run/old" + std::to_string(i) + ".jsonl", ledger_text('b'));
  EXPECT_THAT(warnings({first}), ElementsAre(AllOf(HasSubstr("old4.jsonl and 3 more"), Not(HasSubstr("old5.jsonl")))));
}

}  // namespace
}  // namespace ripieno::ledger
