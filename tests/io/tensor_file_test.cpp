#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>

#include <ripieno/io/tensor_file.hpp>
#include <thread>

#include "support.hpp"

namespace ripieno::io {
namespace {

using test::TemporaryFolder;
namespace fs = std::filesystem;

class TensorFileTest : public ::testing::Test {
 protected:
  void write(const fs::path& path, Readers readers = Readers::everyone) const {
    const std::vector<NamedTensor> tensors{named_tensor<float>("b", {2, 3}, values_),
                                           named_tensor<float>("a.weight", {}, std::span(values_).first(1))};
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
  EXPECT_EQ(file.tensors.at("b").values<float>(), values_);
  EXPECT_EQ(file.tensors.at("b").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.tensors.at("a.weight").values<float>(), std::vector<float>{1});
  EXPECT_TRUE(file.tensors.at("a.weight").shape.empty());
}

/// Bit patterns that no arithmetic would keep: NaNs with a payload, signed zeros, subnormals, infinities.
TEST_F(TensorFileTest, EveryTypeComesBackBitForBit) {
  const std::vector<DType> dtypes{DType::u8,  DType::i8,  DType::f16, DType::bf16, DType::f32,
                                  DType::f64, DType::i32, DType::u32, DType::i64,  DType::u64};
  std::vector<std::byte> pattern(24 * sizeof(std::uint64_t));
  std::mt19937 engine(5);
  std::ranges::generate(pattern, [&] { return static_cast<std::byte>(engine()); });
  std::ranges::fill_n(pattern.begin(), 16, std::byte{0xff});
  std::ranges::fill_n(pattern.begin() + 16, 8, std::byte{0});
  std::vector<NamedTensor> tensors;
  for (const DType dtype : dtypes) {
    tensors.push_back({std::string(dtype_name(dtype)), {4, 6}, dtype, std::span(pattern).first(24 * item_size(dtype))});
  }
  write_tensor_file(folder_ / "t.h5", {}, tensors);
  const TensorFile file = read_tensor_file(folder_ / "t.h5");
  ASSERT_EQ(file.tensors.size(), dtypes.size());
  for (const NamedTensor& written : tensors) {
    const StoredTensor& read = file.tensors.at(written.name);
    EXPECT_EQ(read.dtype, written.dtype) << written.name;
    EXPECT_EQ(read.shape, written.shape) << written.name;
    EXPECT_TRUE(std::ranges::equal(read.bytes, written.bytes)) << written.name;
  }
  EXPECT_THROW((void)file.tensors.at("i32").values<float>(), DataError);
  EXPECT_EQ(file.tensors.at("u8").values<std::uint8_t>()[0], 0xff);
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
  const std::vector<NamedTensor> tensors{named_tensor<float>("b", {7}, values_)};
  EXPECT_THROW(write_tensor_file(folder_ / "t.h5", {}, tensors), UsageError);
  EXPECT_FALSE(fs::exists(folder_ / "t.h5"));
  EXPECT_THROW((void)read_tensor_file(folder_ / "t.h5"), DataError);
}

TEST_F(TensorFileTest, AReplacementTakesTheOldFilesPlace) {
  write(folder_ / "t.h5");
  values_[0] = 7;
  const std::vector<NamedTensor> tensors{named_tensor<float>("b", {2, 3}, values_)};
  write_tensor_file(folder_ / "t.h5", {}, tensors, Readers::everyone, Overwrite::replace);
  EXPECT_EQ(read_tensor_file(folder_ / "t.h5").tensors.at("b").values<float>()[0], 7);
}

TEST_F(TensorFileTest, LargeTensorsAreWrittenInPieces) {
  std::vector<float> large(5'000'000);  // 20 MB: more than two flushes
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i);
  const std::vector<NamedTensor> tensors{named_tensor<float>("a", {5}, std::span(large).first(5)),
                                         named_tensor<float>("b", {1000, 5000}, large),
                                         named_tensor<float>("c", {0}, {})};
  write_tensor_file(folder_ / "t.h5", {}, tensors);
  const TensorFile file = read_tensor_file(folder_ / "t.h5");
  EXPECT_EQ(file.tensors.at("b").values<float>(), large);
  EXPECT_TRUE(file.tensors.at("c").bytes.empty());

  using Seconds = std::chrono::duration<double>;
  WritePace pace;
  const auto start = std::chrono::steady_clock::now();
  write_tensor_file(folder_ / "slow.h5", {}, tensors, Readers::everyone, Overwrite::refuse, &pace);
  EXPECT_GE(Seconds(std::chrono::steady_clock::now() - start).count(), 0.16)
      << "four whole pieces of 4 MiB at 100 MB/s";
  EXPECT_TRUE(test::read_text(folder_ / "slow.h5") == test::read_text(folder_ / "t.h5"));
}

/// Seconds that a rest after `bytes` takes in a file of `file_bytes`.
double rest_s(WritePace& pace, std::uint64_t file_bytes, std::size_t bytes) {
  pace.begin(file_bytes);
  const auto start = std::chrono::steady_clock::now();
  pace.rest_after(bytes);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(WritePaceTest, SmallFilesGoGentlyAndLargeOnesLastTwentySeconds) {
  WritePace pace;
  EXPECT_GE(rest_s(pace, 1'000'000'000, 5'000'000), 0.049) << "100 MB/s";
  EXPECT_GE(rest_s(pace, 20'000'000'000, 50'000'000), 0.049) << "1 GB/s";
}

TEST(WritePaceTest, ARestIsAsLongAsThePieceTook) {
  WritePace pace;
  pace.begin(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const auto start = std::chrono::steady_clock::now();
  pace.rest_after(1);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(60));
}

TEST(WritePaceTest, WhoWaitsForTheFileEndsTheRest) {
  WritePace pace;
  std::thread waiting([&pace] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pace.hurry();
  });
  EXPECT_LT(rest_s(pace, 0, 6'000'000'000), 50) << "not the minute that it would take";
  waiting.join();
  EXPECT_LT(rest_s(pace, 0, 6'000'000'000), 50) << "nor later";
}

TEST_F(TensorFileTest, DamagedMetadataIsAnErrorAndNoCrash) {
  write(folder_ / "t.h5");
  const std::string good = test::read_text(folder_ / "t.h5");
  std::mt19937 engine(3);
  for (int i = 0; i < 60; ++i) {
    std::string damaged = good;
    damaged[engine() % damaged.size()] = static_cast<char>(engine());
    test::write_text(folder_ / "damaged.h5", damaged);
    try {
      (void)read_tensor_file(folder_ / "damaged.h5");
    } catch (const DataError&) {
    }
  }
}

/// In a child: checkpoints of growing step, the two newest kept, one byte told for each that is in place.
[[noreturn]] void write_until_killed(const fs::path& folder, int first_step, int acknowledgements) {
  std::vector<float> values(300'000);
  for (int step = first_step;; ++step) {
    std::fill(values.begin(), values.end(), static_cast<float>(step));
    const std::vector<NamedTensor> tensors{named_tensor<float>("w", {3, 100'000}, values)};
    // Every step is written twice: the second replaces the first.
    for (int i = 0; i < 2; ++i) {
      write_tensor_file(folder / ("step-" + std::to_string(step) + ".h5"), {{"step", std::to_string(step)}}, tensors,
                        Readers::owner_only, Overwrite::replace);
    }
    if (::write(acknowledgements, "x", 1) != 1) ::_exit(1);
    fs::remove(folder / ("step-" + std::to_string(step - 2) + ".h5"));
  }
}

TEST_F(TensorFileTest, KilledAtAnyMomentEveryCheckpointIsReadableAndTheAcknowledgedOnesAreThere) {
  const int kills = std::getenv("RIPIENO_FULL") != nullptr ? 200 : 20;
  std::mt19937_64 random(13);
  const std::vector<float> values(300'000);
  const std::vector<NamedTensor> tensors{named_tensor<float>("w", {3, 100'000}, values)};
  const auto begin = std::chrono::steady_clock::now();
  write_tensor_file(folder_ / "timed", {}, tensors);
  const auto once = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  int step = 0;
  for (int kill = 0; kill < kills; ++kill) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) write_until_killed(folder_.path(), step, ends[1]);
    ::close(ends[1]);
    std::this_thread::sleep_for(once * static_cast<std::int64_t>(random() % 600) / 100);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child stopped by itself";
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) step += static_cast<int>(n);
    ::close(ends[0]);
    int newest = -1;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.path().extension() != ".h5") continue;
      const TensorFile file = read_tensor_file(entry.path());
      newest = std::max(newest, std::stoi(file.attributes.at("step")));
      ASSERT_EQ(file.tensors.at("w").values<float>().back(), static_cast<float>(std::stoi(file.attributes.at("step"))));
    }
    ASSERT_GE(newest, step - 1) << "an acknowledged checkpoint is missing";
  }
  EXPECT_GT(step, 0) << "nothing was written, so the kills show nothing";
}

}  // namespace
}  // namespace ripieno::io
