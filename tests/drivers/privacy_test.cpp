#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <ripieno/accounting/base/json.hpp>

#include "ledger_fixture.hpp"

namespace ripieno {
namespace {

using ledger::testing::Builder;
using testing::HasSubstr;
using testing::StartsWith;

struct Outcome {
  int code = 0;
  std::string output;  ///< standard output, or standard error where asked for
};

Outcome run(const std::string& arguments, const char* redirection = "2>/dev/null") {
  const std::string command = std::string(RIPIENO_BIN_DIR "/ripieno-privacy ") + arguments + " " + redirection;
  Outcome outcome;
  FILE* pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.output.append(buffer, n);
  outcome.code = WEXITSTATUS(::pclose(pipe));
  return outcome;
}

Outcome run_for_error(const std::string& arguments) { return run(arguments, "2>&1 >/dev/null"); }

std::string ledger_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(PrivacyDriver, EpsilonDeltaAndCalibrationAgree) {
  const std::string setting = "--sample-rate 0.01 --steps 1000 --json ";
  const Outcome epsilon = run("epsilon --noise-multiplier 1 --delta 1e-5 " + setting);
  ASSERT_EQ(epsilon.code, 0);
  const Json json = Json::parse(epsilon.output);
  for (const char* key :
       {"epsilon", "epsilon_lower", "delta", "noise_multiplier", "sample_rate", "steps", "adjacency", "method"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  const auto upper = json["epsilon"].get<double>();
  EXPECT_LE(json["epsilon_lower"].get<double>(), upper);
  char epsilon_text[40];
  std::snprintf(epsilon_text, sizeof epsilon_text, "%.17g", upper);
  const Json delta =
      Json::parse(run("delta --noise-multiplier 1 --epsilon " + std::string(epsilon_text) + " " + setting).output);
  EXPECT_NEAR(delta["delta"].get<double>(), 1e-5, 1e-10);
  const Json calibrated =
      Json::parse(run("calibrate --delta 1e-5 --epsilon " + std::string(epsilon_text) + " " + setting).output);
  EXPECT_NEAR(calibrated["noise_multiplier"].get<double>(), 1, 1e-6);
  EXPECT_LE(calibrated["epsilon"].get<double>(), upper);
}

TEST(PrivacyDriver, AnalysesALedger) {
  const std::string path = ledger_file("good.jsonl", Builder().segment().steps(0, 100).text);
  const Outcome text = run("analyze " + path);
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.output, HasSubstr("steps 0 to 99"));
  EXPECT_THAT(text.output, HasSubstr("epsilon <= "));
  const Outcome json_run = run("analyze " + path + " --json --delta 1e-6 --delta 1e-7");
  ASSERT_EQ(json_run.code, 0);
  const Json json = Json::parse(json_run.output);
  EXPECT_EQ(json["steps"], 100);
  EXPECT_EQ(json["results"].size(), 2);
  EXPECT_EQ(json["private"], true);
}

TEST(PrivacyDriver, WritesACurveThatFalls) {
  const std::string path = ledger_file("curve.jsonl", Builder().segment().steps(0, 100).text);
  const std::string curve = testing::TempDir() + "curve.csv";
  ASSERT_EQ(run("analyze " + path + " --curve " + curve).code, 0);
  std::ifstream file(curve);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "epsilon,delta");
  double previous = 2;
  int rows = 0;
  while (std::getline(file, line)) {
    const double delta = std::stod(line.substr(line.find(',') + 1));
    EXPECT_LE(delta, previous);
    previous = delta;
    ++rows;
  }
  EXPECT_GT(rows, 100);
  EXPECT_LT(previous, 1e-10);
}

TEST(PrivacyDriver, RefusalsHaveTheirCodesAndOneLine) {
  const std::string good = ledger_file("one.jsonl", Builder().segment().steps(0, 3).text);
  std::string text = Builder().segment().steps(0, 3).text;
  text[text.find("\"step\":1") + 7] = '7';
  const std::string broken = ledger_file("broken.jsonl", text);
  const std::vector<std::pair<std::string, int>> cases = {
      {"analyze " + broken, 3},
      {"analyze /nonexistent/ledger.jsonl", 3},
      {"analyze " + good + " " + good, 4},
      {"analyze", 2},
      {"analize " + good, 2},
      {"", 2},
      {"epsilon --noise-multiplier 1 --sample-rate 0.01 --steps 10", 2},
      {"epsilon --noise-multiplier -1 --sample-rate 0.01 --steps 10 --delta 1e-5", 2},
      {"epsilon --noise-multiplier 1 --sample-rate 1.01 --steps 10 --delta 1e-5", 2},
      {"epsilon --noise-multiplier 1 --sample-rate 0.01 --steps -10 --delta 1e-5", 2},
      {"epsilon --noise-multiplier 1 --sample-rate nan --steps 10 --delta 1e-5", 2},
      {"analyze " + good + " --plot x.svg", 2},
  };
  for (const auto& [arguments, code] : cases) {
    const Outcome outcome = run_for_error(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, StartsWith("ripieno-privacy: error: ")) << arguments;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  }
}

TEST(PrivacyDriver, HelpAndVersionNeedNothingElse) {
  for (const char* arguments : {"--help", "--version", "epsilon --help", "analyze --help", "calibrate --version"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr("ripieno-privacy")) << arguments;
  }
}

TEST(PrivacyDriver, AFullDiskIsAnError) { EXPECT_EQ(run("--version", ">/dev/full 2>/dev/null").code, 1); }

}  // namespace
}  // namespace ripieno
