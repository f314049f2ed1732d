#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <ripieno/framework/training/json_lines.hpp>

namespace ripieno {
namespace {

class JsonLinesTest : public ::testing::Test {
 protected:
  void SetUp() override { ::unlink(path_.c_str()); }
  void TearDown() override { ::unlink(path_.c_str()); }

  std::string path_ = ::testing::TempDir() + "json_lines_" + std::to_string(::getpid());
};

TEST_F(JsonLinesTest, WritesOneObjectALine) {
  JsonLines lines(path_, Visibility::published);
  lines.write({{"step", 1}});
  lines.write({{"step", 2}, {"epsilon", 0.5}});
  std::ifstream file(path_);
  std::string first, second;
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_EQ(first, R"({"step":1})");
  EXPECT_EQ(second, R"({"step":2,"epsilon":0.5})");
}

TEST_F(JsonLinesTest, Invariant_P1_OperatorFilesAreReadableByTheirOwnerAlone) {
  const mode_t before = ::umask(0);
  JsonLines lines(path_, Visibility::operator_only);
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(JsonLinesTest, AppendsToWhatIsThere) {
  std::ofstream(path_) << "{\"step\":1}\n";
  JsonLines(path_, Visibility::published).write({{"step", 2}});
  std::ifstream file(path_);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(JsonLinesTest, WithoutAFileLinesAreDropped) {
  JsonLines lines;
  EXPECT_FALSE(lines.is_open());
  EXPECT_NO_THROW(lines.write({{"step", 1}}));
}

}  // namespace
}  // namespace ripieno
