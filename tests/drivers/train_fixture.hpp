#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/io/dataset_writer.hpp>
#include <ripieno/io/tensor_file.hpp>
#include <string>
#include <vector>

namespace ripieno::test {

namespace fs = std::filesystem;

struct Outcome {
  int code = 0;
  std::string output;  ///< standard output and standard error together
};

inline Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen");
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.output.append(buffer, n);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

inline std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Examples x float32 [n, 4] and labels of three classes, in a folder that is gone after the test.
class TrainTest : public ::testing::Test {
 protected:
  TrainTest() {
    std::string name = (fs::temp_directory_path() / "ripieno-train-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    folder_ = name;
  }
  ~TrainTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  static constexpr std::int64_t k_features = 4;

  /// `change` may alter the values before they are written; the dataset's identity does not depend on them.
  std::string dataset(
      const std::string& name, std::int64_t num_examples, bool is_public = false,
      const std::function<void(std::vector<float>& x, std::vector<std::int64_t>& y)>& change = {}) const {
    std::mt19937 engine(7);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<std::size_t>(num_examples * k_features));
    std::vector<std::int64_t> y(static_cast<std::size_t>(num_examples));
    for (float& value : x) value = normal(engine);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[4 * i] > 0.5F ? 2 : x[4 * i + 1] > 0 ? 1 : 0;
    if (change) change(x, y);
    io::DatasetSpec spec;
    spec.name = "data";
    spec.dataset_id = "6f2c7a52-6f3e-4f0e-9b9b-0d3f0f3b7a11";
    spec.created = "2026-01-01T00:00:00Z";
    spec.privacy_unit = is_public ? io::PrivacyUnit::public_data : io::PrivacyUnit::example;
    spec.dtype = io::DType::f32;
    spec.example_shape = example_shape_;
    spec.num_classes = 3;
    spec.num_shards = 2;
    spec.check_values = false;
    return io::write_dataset(folder_ / name, spec, std::as_bytes(std::span(x)), y).string();
  }

  [[nodiscard]] std::string out(const std::string& name) const { return (folder_ / name).string(); }

  /// What a run left.
  [[nodiscard]] Json result(const std::string& name) const {
    return Json::parse(read_file(folder_ / name / "result.json"));
  }
  [[nodiscard]] std::map<std::string, std::vector<float>> tensors(const std::string& file) const {
    std::map<std::string, std::vector<float>> values;
    for (const auto& [name, tensor] : io::read_tensor_file(folder_ / file).tensors)
      values[name] = tensor.values<float>();
    return values;
  }

  static std::string mpiexec(int ranks) {
    return std::string(RIPIENO_MPIEXEC " ") + RIPIENO_MPIEXEC_FLAGS + " -n " + std::to_string(ranks) + " ";
  }
  static std::string train() { return RIPIENO_BIN_DIR "/ripieno-train "; }
  static std::string privacy() { return RIPIENO_BIN_DIR "/ripieno-privacy "; }

  /// A small run's options but for data and OUT, some of them changed or added; a flag has an empty value.
  static std::string small(const std::map<std::string, std::string>& changes = {}) {
    std::map<std::string, std::string> options{{"model", "mlp"},
                                               {"model-arg", "hidden=8"},
                                               {"expected-batch", "32"},
                                               {"steps", "20"},
                                               {"noise-multiplier", "1.5"},
                                               {"delta", "1e-5"},
                                               {"clipping-norm", "1"},
                                               {"lr", "0.5"},
                                               {"momentum", "0.9"},
                                               {"verify", "open"},
                                               {"check-collectives", ""}};
    for (const auto& [name, value] : changes) options[name] = value;
    std::string text;
    for (const auto& [name, value] : options) text += " --" + name + (value.empty() ? "" : " " + value);
    return text;
  }

  /// Runs the command until some steps are done, then sends `signal` to it.
  Outcome interrupted(const std::string& command, const std::string& name, const std::string& signal) const {
    return run("bash -c '" + command + " --operator-log & job=$!; for i in $(seq 3000); do [ $(cat " + out(name) +
               "/operator.jsonl 2>/dev/null | wc -l) -gt 20 ] && break; sleep 0.02; done; kill -" + signal +
               " $job; wait $job'");
  }

  /// Starts the command, sends `signal` to its ranks once the run has done more than `steps`, which its operator log
  /// tells, and waits for its end.
  [[nodiscard]] Outcome interrupted_ranks(const std::string& command, const std::string& name,
                                          const std::string& signal, int steps = 20) const {
    return disturbed(command, name,
                     "pkill -" + signal + " -f \"^" + RIPIENO_BIN_DIR + "/ripieno-train .*--out " + out(name) + "\"",
                     steps);
  }

  /// The same, with a command of the shell for what is done to the run.
  [[nodiscard]] Outcome disturbed(const std::string& command, const std::string& name, const std::string& blow,
                                  int steps = 20) const {
    return run("bash -c '" + command + " & job=$!; for i in $(seq 3000); do [ $(cat " + out(name) +
               "/operator.jsonl 2>/dev/null | wc -l) -gt " + std::to_string(steps) + " ] && break; sleep 0.02; done; " +
               blow + "; wait $job'");
  }

  /// Number of step records in a ledger.
  static std::int64_t records(const std::string& ledger) {
    std::int64_t count = 0;
    for (const std::string& line : lines_of(ledger)) count += line.starts_with("{\"seg\":") ? 1 : 0;
    return count;
  }

  fs::path folder_;
  std::vector<std::int64_t> example_shape_{k_features};  ///< of the datasets; another with as many values
};

}  // namespace ripieno::test
