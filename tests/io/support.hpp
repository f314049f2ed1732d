#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/dataset_writer.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno::io::test {

namespace fs = std::filesystem;

/// A folder that is gone with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "ripieno-io-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const fs::path& path() const noexcept { return path_; }
  [[nodiscard]] fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

inline fs::path bad_shard(const std::string& name) { return fs::path(RIPIENO_TEST_DATA) / "bad-shards" / name; }

inline std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

/// What `body` complains about; fails the test unless it throws a DataError.
template <class Body>
std::string data_error(Body body) {
  try {
    body();
  } catch (const DataError& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

/// `count` values of any type, from raw random bits but for a range where one is given.
template <class T>
std::vector<T> random_values(std::size_t count, std::int64_t low, std::int64_t high, std::uint64_t seed = 1) {
  std::mt19937_64 engine(seed);
  std::uniform_int_distribution<std::int64_t> distribution(low, high);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(distribution(engine));
  return values;
}

inline std::vector<std::int64_t> random_labels(std::int64_t count, std::int64_t classes, std::uint64_t seed = 2) {
  return random_values<std::int64_t>(static_cast<std::size_t>(count), 0, classes - 1, seed);
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// The interpreter of the tests' virtual environment, which has numpy and h5py (scripts/setup --tests).
inline std::string python() {
  if (const char* venv = std::getenv("RIPIENO_VENV")) return std::string(venv) + "/bin/python";
  if (const char* data = std::getenv("XDG_DATA_HOME")) return std::string(data) + "/ripieno/venv/bin/python";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "") + "/.local/share/ripieno/venv/bin/python";
}

/// Runs a Python program; fails the test, with all that Python said, when it ends with an error. Returns its output.
inline std::string run_python(const TemporaryFolder& scratch, const std::string& program,
                              const std::string& arguments = {}) {
  write_text(scratch / "program.py", program);
  const std::string command = python() + " " + (scratch / "program.py").string() + " " + arguments + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, got);
  EXPECT_EQ(::pclose(pipe), 0) << command << "\n"
                               << output << "\nthe tests need numpy and h5py there: scripts/setup --tests";
  return output;
}

/// A small set of u8 images [3, 4, 5] in three shards, without mean and std.
inline DatasetSpec small_spec() {
  DatasetSpec spec;
  spec.name = "small";
  spec.dataset_id = "6f2c7a52-6f3e-4f0e-9b9b-0d3f0f3b7a11";
  spec.created = "2026-01-01T00:00:00Z";
  spec.example_shape = {3, 4, 5};
  spec.normalisation.scale = 1.0F / 255.0F;
  spec.num_classes = 7;
  spec.num_shards = 3;
  return spec;
}

inline constexpr std::int64_t k_small_examples = 100;
inline constexpr std::size_t k_small_numel = 60;

inline fs::path write_small(const fs::path& folder, const DatasetSpec& spec = small_spec()) {
  const auto x = random_values<std::uint8_t>(k_small_examples * k_small_numel, 0, 255);
  return write_dataset(folder, spec, bytes_of(x), random_labels(k_small_examples, 7));
}

}  // namespace ripieno::io::test
