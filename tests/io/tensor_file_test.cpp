#include <sys/stat.h>

#include <ripieno/io/tensor_file.hpp>

#include "support.hpp"

namespace ripieno::io {
namespace {

using test::TemporaryFolder;
namespace fs = std::filesystem;

class TensorFileTest : public ::testing::Test {
 protected:
  void write(const fs::path& path, Readers readers = Readers::everyone) const {
    const std::vector<NamedTensor> tensors{{"b", {2, 3}, values_}, {"a.weight", {}, std::span(values_).first(1)}};
    write_tensor_file(path, {{"model", "linear"}, {"empty", ""}}, tensors, readers);
  }

  TemporaryFolder folder_;
  std::vector<float> values_{1, -2, 3.5F, 0, 1e-40F, 3e38F};
};

TEST_F(TensorFileTest, ReadsBackWhatWasWritten) {
  write(folder_ / "t.h5");
  const TensorFile file = read_tensor_file(folder_ / "t.h5");
  EXPECT_EQ(file.attributes, (TextAttributes{{"empty", ""}, {"model", "linear"}}));
  ASSERT_EQ(file.tensors.size(), 2U);
  EXPECT_EQ(file.tensors.at("b").values, values_);
  EXPECT_EQ(file.tensors.at("b").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.tensors.at("a.weight").values, std::vector<float>{1});
  EXPECT_TRUE(file.tensors.at("a.weight").shape.empty());
}

TEST_F(TensorFileTest, EqualContentsGiveEqualBytesAndNothingIsOverwritten) {
  write(folder_ / "a.h5");
  write(folder_ / "b.h5");
  EXPECT_EQ(test::read_text(folder_ / "a.h5"), test::read_text(folder_ / "b.h5"));
  EXPECT_THROW(write(folder_ / "a.h5"), DataError);
}

TEST_F(TensorFileTest, EveryFlippedByteOfTheDataIsNoticed) {
  write(folder_ / "t.h5");
  const std::string bytes = test::read_text(folder_ / "t.h5");
  const std::string raw(reinterpret_cast<const char*>(values_.data()), values_.size() * sizeof(float));
  const std::size_t data = bytes.find(raw);
  ASSERT_NE(data, std::string::npos);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    std::string damaged = bytes;
    damaged[data + i] = static_cast<char>(damaged[data + i] ^ 0x10);
    test::write_text(folder_ / "damaged.h5", damaged);
    EXPECT_THROW((void)read_tensor_file(folder_ / "damaged.h5"), DataError) << "byte " << i;
  }
}

TEST_F(TensorFileTest, Invariant_P3_AFileWithASecretIsForItsOwnerAlone) {
  const mode_t before = ::umask(0);
  write(folder_ / "secret.h5", Readers::owner_only);
  write(folder_ / "public.h5");
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / "secret.h5").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_EQ(::stat((folder_ / "public.h5").c_str(), &status), 0);
  EXPECT_NE(status.st_mode & 0044, 0U);
}

TEST_F(TensorFileTest, ShapesThatDoNotFitAreRefused) {
  const std::vector<NamedTensor> tensors{{"b", {7}, values_}};
  EXPECT_THROW(write_tensor_file(folder_ / "t.h5", {}, tensors), UsageError);
  EXPECT_FALSE(fs::exists(folder_ / "t.h5"));
  EXPECT_THROW((void)read_tensor_file(folder_ / "t.h5"), DataError);
}

}  // namespace
}  // namespace ripieno::io
