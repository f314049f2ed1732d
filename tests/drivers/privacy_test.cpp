#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <iterator>
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

Outcome output_of(const std::string& command) {
  Outcome outcome;
  FILE* pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.output.append(buffer, n);
  outcome.code = WEXITSTATUS(::pclose(pipe));
  return outcome;
}

Outcome run(const std::string& arguments, const char* redirection = "2>/dev/null") {
  return output_of(std::string(RIPIENO_BIN_DIR "/ripieno-privacy ") + arguments + " " + redirection);
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

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PrivacyDriver, WritesCurvesThatFall) {
  const std::string path = ledger_file("curve.jsonl", Builder().segment().steps(0, 1000).text);
  const std::string curve = testing::TempDir() + "curve.csv";
  ASSERT_EQ(run("analyze " + path + " --curve " + curve).code, 0);
  std::ifstream file(curve);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "epsilon,delta,alpha,beta");
  double previous_delta = 2;
  double previous_beta = 2;
  int rows = 0;
  double epsilon = 0;
  double delta = 0;
  double alpha = 0;
  double beta = 0;
  while (std::getline(file, line)) {
    ASSERT_EQ(std::sscanf(line.c_str(), "%lf,%lf,%lf,%lf", &epsilon, &delta, &alpha, &beta), 4) << line;
    EXPECT_LE(delta, previous_delta);
    EXPECT_LE(beta, previous_beta);
    EXPECT_LE(alpha + beta, 1) << "no attack is worse than a blind guess";
    previous_delta = delta;
    previous_beta = beta;
    ++rows;
  }
  EXPECT_GT(rows, 100);
  EXPECT_LT(previous_delta, 2e-11);
  EXPECT_EQ(alpha, 1);
}

TEST(PrivacyDriver, DrawsAPlot) {
  const std::string path = ledger_file("plot.jsonl", Builder().segment().steps(0, 1000).text);
  const std::string plot = testing::TempDir() + "plot.svg";
  ASSERT_EQ(run("analyze " + path + " --delta 1e-6 --plot " + plot).code, 0);
  EXPECT_THAT(contents(plot), StartsWith("<svg "));
  EXPECT_THAT(contents(plot), HasSubstr("at δ = 10<tspan"));
  EXPECT_EQ(run("analyze " + path + " --plot /nonexistent/plot.svg").code, 3);
}

TEST(PrivacyDriver, WritesAPage) {
  const std::string path = ledger_file("page.jsonl", Builder().segment().steps(0, 1000).text);
  const std::string page = testing::TempDir() + "page.html";
  ASSERT_EQ(run("analyze " + path + " --delta 1e-6 --html " + page).code, 0);
  EXPECT_THAT(contents(page), StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(contents(page), HasSubstr("at δ = 1e-06"));
  EXPECT_EQ(run("analyze " + path + " --html /nonexistent/page.html").code, 3);
}

// What bash offers after these words, the last of which is not yet whole.
std::string completed(const std::string& words) {
  const std::string script = "source " RIPIENO_SOURCE_DIR "/drivers/completion.bash; COMP_WORDS=(ripieno-privacy " +
                             words +
                             "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _ripieno " RIPIENO_BIN_DIR
                             "/ripieno-privacy \"${COMP_WORDS[-1]}\"; echo \"${COMPREPLY[@]}\"";
  return output_of("bash -c '" + script + "'").output;
}

TEST(PrivacyDriver, BashCompletesCommandsAndTheirOptions) {
  EXPECT_EQ(completed("ana"), "analyze\n");
  EXPECT_EQ(completed("epsilon --sam"), "--sample-rate\n");
  EXPECT_EQ(completed("analyze --delta 1e-5 --h"), "--html --help\n");
  EXPECT_EQ(completed("epsilon --no-such"), "\n");
  EXPECT_EQ(completed("analyze run/led"), "\n") << "file names are left to bash";
}

TEST(PrivacyDriver, TellsHowManyStepsAreLeft) {
  const std::string setting = " --delta 1e-5 --noise-multiplier 1 --sample-rate 0.01 ";
  const Json steps = Json::parse(run("steps --epsilon 1.8283" + setting + "--json").output);
  EXPECT_EQ(steps["steps"], 1000);
  EXPECT_LE(steps["epsilon"].get<double>(), 1.8283);
  EXPECT_EQ(steps["epsilon_target"], 1.8283);
  EXPECT_THAT(run("steps --epsilon 1.8283" + setting).output, HasSubstr("one step more and it is 1.829"));
}

TEST(PrivacyDriver, CalibratesTheSampleRateWhereTheNoiseIsGiven) {
  const std::string setting = "calibrate --epsilon 2 --delta 1e-5 --steps 1000 ";
  const Json json = Json::parse(run(setting + "--noise-multiplier 1 --json").output);
  EXPECT_GT(json["sample_rate"].get<double>(), 0.01);
  EXPECT_LE(json["epsilon"].get<double>(), 2);
  EXPECT_THAT(run_for_error(setting).output, HasSubstr("neither is given"));
  EXPECT_THAT(run_for_error(setting + "--noise-multiplier 1 --sample-rate 0.1").output, HasSubstr("both are given"));
}

TEST(PrivacyDriver, WarnsOfLedgersThatWereNotGiven) {
  const std::string path = ledger_file("given.jsonl", Builder().segment(ledger::testing::plan_options(), 0, 'd').text);
  ledger_file("forgotten.jsonl", Builder().segment(ledger::testing::plan_options(), 0, 'e').text);
  const Json json = Json::parse(run("analyze --json " + path).output);
  ASSERT_FALSE(json["warnings"].empty());
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("not counted here"));
}

// Reference for 90 of 100 right at 95 % and delta 0: 1.63082.
TEST(PrivacyDriver, AnAuditFailsLoudlyWhenItRefutesTheAccounting) {
  std::string text = "included,guess\n";
  for (int i = 0; i < 100; ++i) text += i < 90 ? "1,1\n" : "0,1\n";
  const std::string canaries = ledger_file("canaries.csv", text);
  const std::string audit = "audit --canaries " + canaries;
  const Outcome fine = run(audit + " --epsilon 2 --delta 0 --json");
  EXPECT_EQ(fine.code, 0);
  EXPECT_NEAR(Json::parse(fine.output)["epsilon_audited"].get<double>(), 1.63082, 1e-5);
  const Outcome refuted = run_for_error(audit + " --epsilon 1.6 --delta 0");
  EXPECT_EQ(refuted.code, 4);
  EXPECT_THAT(refuted.output, HasSubstr("refutes the accounted epsilon (at least 1.63082 against at most 1.6)"));
  const std::string ledger = ledger_file("audited.jsonl", Builder().segment().steps(0, 1000).text);
  EXPECT_THAT(run(audit + " --ledger " + ledger).output, HasSubstr("accounted: epsilon <= 1.82824"));
  EXPECT_EQ(run_for_error(audit).code, 2);
  EXPECT_EQ(run_for_error(audit + " --epsilon 1").code, 2);
  EXPECT_EQ(run_for_error(audit + " --epsilon 1 --delta 0 --ledger " + ledger).code, 2);
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
      {"analyze " + good + " --delta 0", 2},
      {"steps --epsilon 1 --delta 1e-5 --noise-multiplier 1", 2},
  };
  for (const auto& [arguments, code] : cases) {
    const Outcome outcome = run_for_error(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, StartsWith("ripieno-privacy: error: ")) << arguments;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  }
}

TEST(PrivacyDriver, HelpAndVersionNeedNothingElse) {
  for (const char* arguments :
       {"--help", "--version", "epsilon --help", "analyze --help", "steps --help", "calibrate --version"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr("ripieno-privacy")) << arguments;
  }
}

TEST(PrivacyDriver, HelpShowsOneExampleOfEachCommandThatRuns) {
  const std::string help = run("--help").output;
  int examples = 0;
  for (std::size_t at = help.find("ripieno-privacy ", help.find("commands:")); at != std::string::npos;
       at = help.find("ripieno-privacy ", at + 1)) {
    const std::string arguments = help.substr(at + 16, help.find('\n', at) - at - 16);
    if (arguments.starts_with("COMMAND") || arguments.starts_with("a")) continue;  // analyze, audit: no files
    EXPECT_EQ(run(arguments).code, 0) << arguments;
    EXPECT_THAT(run(arguments.substr(0, arguments.find(' ')) + " --help").output, HasSubstr(arguments));
    ++examples;
  }
  EXPECT_EQ(examples, 5);
  EXPECT_THAT(help, HasSubstr("ripieno-privacy analyze run/ledger.jsonl"));
  EXPECT_THAT(help, HasSubstr("ripieno-privacy audit --canaries"));
}

TEST(PrivacyDriver, AFullDiskIsAnError) { EXPECT_EQ(run("--version", ">/dev/full 2>/dev/null").code, 1); }

double mechanism_epsilon(const std::string& arguments) {
  const Outcome outcome = run("mechanism --delta 1e-5 --json " + arguments);
  EXPECT_EQ(outcome.code, 0) << arguments;
  return Json::parse(outcome.output).at("epsilon");
}

// Figures of Opake 0.16.1, on a grid of 1e-4; an upper bound that is tighter by up to 5e-3 is as good.
TEST(PrivacyDriver, MechanismsHaveTheirOwnEpsilon) {
  const std::pair<const char*, double> known[] = {
      {"--kind poisson --noise-multiplier 1 --sample-rate 0.01 --steps 1000", 1.828321647525279},
      {"--kind poisson --noise-multiplier 1 --sample-rate 1 --steps 1 --group 4", 24.381611},
      {"--kind parallel-poisson --noise-multiplier 1.1 --sample-rate 0.01 --workers 2 --steps 500", 2.33538645719872},
      {"--kind k-out-of-t --noise-multiplier 1 --participations 1 --steps 20", 1.6102338119541928},
      {"--kind balls-in-bins --noise-multiplier 2 --bins 50 --steps 200", 0.9738966653088659},
      {"--kind ordered-batches --noise-multiplier 1 --participations 1", 4.377178096},
      {"--kind ordered-batches --noise-multiplier 2 --participations 1 --adjacency replace-one", 4.377178096},
      {"--kind matrix-factorisation --strategy lambda-cgd --lambda 0.5 --noise-multiplier 4 --steps 64 "
       "--min-separation 16",
       1.9931168801139407},
      {"--kind matrix-factorisation --strategy bsr --bandwidth 4 --alpha 0.99 --beta 0.9 --noise-multiplier 2 --steps "
       "64 "
       "--min-separation 8",
       13.956324390645028},
      {"--kind cyclic-poisson --noise-multiplier 1 --sample-rate 0.01 --bins 1 --steps 1000", 1.828321647525279}};
  for (const auto& [arguments, epsilon] : known) {
    EXPECT_NEAR(mechanism_epsilon(arguments), epsilon, 5e-3 * epsilon) << arguments;
  }
}

// Opake 0.16.1 says 0.7566 from draws of its own; 10%.
TEST(PrivacyDriver, DrawnBoundsStateTheirConfidence) {
  const Outcome drawn =
      run("mechanism --kind balls-in-bins --strategy lambda-cgd --lambda 0.5 --noise-multiplier 4 --bins 8 --steps 32 "
          "--delta 1e-3 --draws 200000 --json");
  ASSERT_EQ(drawn.code, 0);
  const Json json = Json::parse(drawn.output);
  EXPECT_NEAR(json.at("epsilon").get<double>(), 0.7565485833398172, 0.076);
  EXPECT_EQ(json.at("failure_probability"), 1e-6);
}

TEST(PrivacyDriver, MechanismsSayWhatTheyNeed) {
  const Outcome missing = run_for_error("mechanism --kind balls-in-bins --noise-multiplier 2 --steps 200 --delta 1e-5");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.output, HasSubstr("needs --bins"));
  EXPECT_EQ(run("mechanism --kind nothing --noise-multiplier 2 --delta 1e-5").code, 2);
  EXPECT_EQ(run("mechanism --kind k-out-of-t --noise-multiplier 0 --participations 1 --steps 9 --delta 1e-5").code, 2);
}

}  // namespace
}  // namespace ripieno
