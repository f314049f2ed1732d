#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <ripieno/accounting/base/error.hpp>
#include <sstream>

#include <ripieno/accounting/cli/options.hpp>
#include <ripieno/accounting/cli/program.hpp>

namespace ripieno::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A program with one option of every kind.
struct Example {
  Example() : options("ripieno-example", "An example.", {"Library 1.2"}) {
    options.group("data").add("data", data, "PATH", "the data set").add("eval-is-public", is_public, "", "a flag");
    options.group("optimizer")
        .add("lr", lr, "RATE", "learning rate")
        .add("steps", steps, "N", "number of steps")
        .add("delta", delta, "D", "target delta")
        .add("model-arg", model_args, "K=V", "an argument of the model")
        .add_choice("engine", engine, {"auto", "loop"}, "how gradients are made");
    options.alternatives({"steps", "delta"});
    options.positional("FILE", files, "files to read", 0);
  }

  bool parse(const std::vector<std::string>& arguments) { return options.parse(arguments); }

  std::string error(const std::vector<std::string>& arguments) {
    try {
      (void)parse(arguments);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "accepted";
  }

  std::string data;
  bool is_public = false;
  double lr = 0.1;
  std::int64_t steps = 100;
  std::optional<double> delta;
  std::vector<std::string> model_args;
  std::string engine = "auto";
  std::vector<std::string> files;
  Options options;
};

std::string temporary_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(Options, ReadEveryKindOfValue) {
  Example example;
  EXPECT_TRUE(example.parse({"a.txt", "--lr", "-1e-3", "--steps=7", "--eval-is-public", "b.txt", "--delta=1e-5",
                             "--model-arg", "width=3", "--model-arg", "depth=2", "--engine", "loop"}));
  EXPECT_EQ(example.lr, -1e-3);
  EXPECT_EQ(example.steps, 7);
  EXPECT_TRUE(example.is_public);
  EXPECT_EQ(example.delta, 1e-5);
  EXPECT_THAT(example.model_args, ElementsAre("width=3", "depth=2"));
  EXPECT_EQ(example.engine, "loop");
  EXPECT_THAT(example.files, ElementsAre("a.txt", "b.txt"));
  EXPECT_TRUE(example.options.given("lr"));
  EXPECT_FALSE(example.options.given("data"));
}

TEST(Options, LeaveDefaultsAlone) {
  Example example;
  EXPECT_TRUE(example.parse({}));
  EXPECT_EQ(example.lr, 0.1);
  EXPECT_FALSE(example.delta);
}

TEST(Options, NameTheNearestOfAnUnknownOption) {
  EXPECT_EQ(Example().error({"--step", "3"}), "unknown option --step; did you mean --steps?");
  EXPECT_THAT(Example().error({"--zzzzzzzzz"}), HasSubstr("see --help"));
}

TEST(Options, RefuseValuesThatAreNone) {
  EXPECT_EQ(Example().error({"--lr", "fast"}), "--lr is 'fast' (must be a number)");
  EXPECT_EQ(Example().error({"--steps", "1.5"}), "--steps is '1.5' (must be an integer)");
  EXPECT_EQ(Example().error({"--engine", "warp"}), "--engine is 'warp' (must be one of auto, loop)");
  EXPECT_THAT(Example().error({"--lr"}), HasSubstr("lr"));
  EXPECT_EQ(Example().error({"--lr", "1", "--lr", "2"}), "--lr is given twice (it takes one value)");
  EXPECT_THAT(Example().error({"-v", "-q"}), HasSubstr("contradict"));
}

TEST(Options, AFlagTakesAValueOnlyAfterAnEqualsSign) {
  Example example;
  EXPECT_TRUE(example.parse({"--eval-is-public", "file"}));
  EXPECT_TRUE(example.is_public);
  EXPECT_THAT(example.files, ElementsAre("file"));
  EXPECT_TRUE(example.parse({"--eval-is-public=false"}));
  EXPECT_FALSE(example.is_public);
}

TEST(Options, TheCommandLineWinsOverTheConfiguration) {
  const std::string path = temporary_file("wins.ini",
                                          "# comment\nsteps = 5\n\n[optimizer]\nlr = 0.5\nmodel-arg = a=1\n"
                                          "model-arg = b=2\n[data]\neval-is-public = true\ndata = \" with blanks \"\n");
  Example example;
  EXPECT_TRUE(example.parse({"--config", path, "--lr", "0.25"}));
  EXPECT_EQ(example.lr, 0.25);
  EXPECT_EQ(example.steps, 5);
  EXPECT_TRUE(example.is_public);
  EXPECT_EQ(example.data, " with blanks ");
  EXPECT_THAT(example.model_args, ElementsAre("a=1", "b=2"));
  EXPECT_TRUE(example.options.given("steps"));
  Example list;
  EXPECT_TRUE(list.parse({"--config", path, "--model-arg", "c=3"}));
  EXPECT_THAT(list.model_args, ElementsAre("c=3"));
}

TEST(Options, AnAlternativeOnTheCommandLineReplacesTheConfigurations) {
  const std::string path = temporary_file("alternatives.ini", "steps = 7\nlr = 0.5\n");
  Example replaced;
  EXPECT_TRUE(replaced.parse({"--config", path, "--delta", "1e-5"}));
  EXPECT_FALSE(replaced.options.given("steps"));
  EXPECT_EQ(replaced.steps, 100);
  EXPECT_EQ(replaced.lr, 0.5);
  Example same;
  EXPECT_TRUE(same.parse({"--config", path, "--lr", "0.25"}));
  EXPECT_EQ(same.steps, 7);
  Example both;  // in one place both stay, for the program to refuse
  EXPECT_TRUE(both.parse({"--steps", "5", "--delta", "1e-5"}));
  EXPECT_TRUE(both.options.given("steps") && both.options.given("delta"));
}

TEST(Options, ConfigurationFaultsNameFileLineAndTheNearestKey) {
  const auto error = [](const std::string& text) {
    return Example().error({"--config", temporary_file("fault.ini", text)});
  };
  EXPECT_THAT(error("\nstep = 5\n"), testing::EndsWith("fault.ini line 2: unknown key 'step'; did you mean steps?"));
  EXPECT_THAT(error("[privacy]\nlr = 1\n"), HasSubstr("unknown section [privacy] (sections are data, optimizer)"));
  EXPECT_THAT(error("lr\n"), HasSubstr("line 1 is not of the form"));
  EXPECT_THAT(error("lr = x\n"), HasSubstr("line 1: lr is 'x' (must be a number)"));
  EXPECT_THAT(error("lr = 1\nlr = 2\n"), HasSubstr("line 2: 'lr' is given twice"));
  EXPECT_THAT(error("config = other.ini\n"), HasSubstr("unknown key 'config'"));
  EXPECT_THAT(Example().error({"--config", "/nonexistent.ini"}), HasSubstr("cannot read /nonexistent.ini"));
}

TEST(Options, WhatIsDumpedReadsBackTheSame) {
  Example first;
  EXPECT_TRUE(first.parse({"--lr", "0.30000000000000004", "--data", " odd \"path\" # ", "--model-arg", "a=1",
                           "--model-arg", "b=\"2\"", "--eval-is-public", "--delta", "1e-300"}));
  Example second;
  EXPECT_TRUE(second.parse({"--config", temporary_file("dump.ini", first.options.dump())}));
  EXPECT_EQ(second.options.dump(), first.options.dump());
  EXPECT_EQ(second.lr, first.lr);
  EXPECT_EQ(second.data, first.data);
  EXPECT_EQ(second.model_args, first.model_args);
  EXPECT_EQ(second.delta, first.delta);
}

TEST(Options, HelpShowsGroupsAndDefaults) {
  const std::string help = Example().options.help();
  for (const char* part : {"Usage: ripieno-example", "optimizer:", "--lr RATE", "(default: 0.1)", "--engine auto|loop",
                           "-v, --verbose", "(may be repeated)", "FILE"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
}

TEST(Options, HelpVersionAndDumpEndTheProgram) {
  for (const char* option : {"--help", "--version", "--dump-config"}) {
    testing::internal::CaptureStdout();
    EXPECT_FALSE(Example().parse({option}));
    EXPECT_FALSE(testing::internal::GetCapturedStdout().empty());
  }
}

TEST(Options, ARequiredOptionThatIsMissingIsNamed) {
  Example example;
  std::string name;
  example.options.group("extra").add("name", name, "NAME", "of the run").required();
  EXPECT_THAT(example.options.help(), HasSubstr("of the run (required)"));
  EXPECT_TRUE(example.parse({"--name", "a"}));
  Example without;
  without.options.group("extra").add("name", name, "NAME", "of the run").required();
  try {
    (void)without.parse({"--lr", "1"});
    ADD_FAILURE() << "a required option was missing";
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("--name"));
  }
}

TEST(Program, TurnsErrorsIntoOneLineAndTheirCode) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_program("ripieno-x", []() -> int { throw DataError("WHAT", "WHY", "TRY"); }), 3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "ripieno-x: error: WHAT (WHY); TRY\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_program("ripieno-x", []() -> int { throw std::runtime_error("odd"); }), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "ripieno-x: error: odd\n");
  EXPECT_EQ(run_program("ripieno-x", [] { return 85; }), 85);
}

TEST(Program, DispatchesToTheNamedCommand) {
  std::vector<std::string> seen;
  const std::vector<Command> commands = {{"verify", "checks", [&](std::span<const std::string> arguments) {
                                            seen.assign(arguments.begin(), arguments.end());
                                            return 7;
                                          }}};
  const auto run = [&](const std::vector<std::string>& arguments) {
    return dispatch("ripieno-x", "Summary.", commands, arguments, {});
  };
  EXPECT_EQ(run({"verify", "a", "--b"}), 7);
  EXPECT_THAT(seen, ElementsAre("a", "--b"));
  EXPECT_THROW((void)run({}), UsageError);
  try {
    (void)run({"verfy"});
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("did you mean verify?"));
  }
}

}  // namespace
}  // namespace ripieno::cli
