// A job that fails in the way its first argument names, on the rank of its second. failure_test starts it and looks at
// what comes out.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/framework/comm/failure.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using ripieno::OperationScope;
using ripieno::Runtime;

/// One rank fails in step 7 while the others wait for it in a sum.
void step_with_bad_data(const Runtime& runtime, int failing_rank) {
  runtime.communicator().barrier();
  const OperationScope step("train", 7);
  if (failing_rank < 0 || runtime.rank() == failing_rank) {
    const OperationScope scope("read batch");
    throw ripieno::DataError("shard.h5 is broken", "deliberately", "mend it");
  }
  std::vector<double> value = {1};
  runtime.communicator().allreduce_sum(std::span<double>(value));
}

int inside_run(int argc, char** argv, int failing_rank) {
  const Runtime runtime(argc, argv);
  return runtime.run([&] {
    step_with_bad_data(runtime, failing_rank);
    return 0;
  });
}

struct ReportedError : ripieno::Error, ripieno::AlreadyReported {
  ReportedError() : Error(ripieno::ExitCode::data, "reported before", {}, {}) {}
};

/// All ranks have agreed on a failure and one of them has printed it.
int agreed(int argc, char** argv, int /*failing_rank*/) {
  const Runtime runtime(argc, argv);
  return runtime.run([]() -> int { throw ReportedError(); });
}

int caught_by_nobody(int argc, char** argv, int failing_rank) {
  const Runtime runtime(argc, argv);
  step_with_bad_data(runtime, failing_rank);
  return 0;
}

int caught_outside(int argc, char** argv, int failing_rank) {
  try {
    return caught_by_nobody(argc, argv, failing_rank);
  } catch (const ripieno::Error& e) {
    ripieno::log::error(e.what());
    return static_cast<int>(e.code());
  }
}

/// The exception is caught, but the process does not end.
int lives_on(int argc, char** argv, int failing_rank) {
  caught_outside(argc, argv, failing_rank);
  std::this_thread::sleep_for(std::chrono::minutes(2));
  return 0;
}

int killed(int argc, char** argv, int failing_rank) {
  const Runtime runtime(argc, argv);
  runtime.communicator().barrier();
  if (runtime.rank() == failing_rank) std::raise(SIGKILL);
  runtime.communicator().barrier();
  return 0;
}

constexpr double k_deadline_s = 2;

Runtime impatient_runtime(int& argc, char**& argv) { return {argc, argv, {.collective_timeout_s = k_deadline_s}}; }

/// The failing rank does `instead` while the others wait for it at a barrier of step 3.
int others_wait(int argc, char** argv, int failing_rank, const std::function<void()>& instead) {
  const Runtime runtime = impatient_runtime(argc, argv);
  return runtime.run([&] {
    runtime.communicator().barrier();
    const OperationScope step("train", 3);
    if (runtime.rank() == failing_rank) instead();
    runtime.communicator().barrier();
    return 0;
  });
}

int sleeps(int argc, char** argv, int failing_rank) {
  return others_wait(argc, argv, failing_rank, [] {
    const OperationScope scope("read batch");
    std::this_thread::sleep_for(std::chrono::minutes(2));
  });
}

int stopped(int argc, char** argv, int failing_rank) {
  return others_wait(argc, argv, failing_rank, [] { std::raise(SIGSTOP); });
}

int takes_part_late(int argc, char** argv, int failing_rank) {
  return others_wait(argc, argv, failing_rank,
                     [] { std::this_thread::sleep_for(std::chrono::duration<double>(k_deadline_s / 2)); });
}

/// The failing rank ends in the ordinary way while the others are in a collective.
int leaves_early(int argc, char** argv, int failing_rank) {
  const Runtime runtime = impatient_runtime(argc, argv);
  return runtime.run([&] {
    std::vector<double> value = {1};
    if (runtime.rank() != failing_rank) runtime.communicator().allreduce_sum(std::span<double>(value));
    return 0;
  });
}

/// The failing rank calls another collective than the others.
int mismatched(int argc, char** argv, int failing_rank) {
  const Runtime runtime(argc, argv, {.check_collectives = true});
  return runtime.run([&] {
    const OperationScope step("train", 3);
    std::vector<float> values(runtime.rank() == failing_rank ? 4 : 5);
    runtime.communicator().allreduce_sum(std::span<float>(values));
    return 0;
  });
}

int two_lives(int argc, char** argv, int /*failing_rank*/) {
  { const Runtime first(argc, argv); }
  const Runtime second(argc, argv);
  return 0;
}

int says_hello(int argc, char** argv, ripieno::RuntimeOptions options) {
  const Runtime runtime(argc, argv, options);
  std::printf("rank %d of %d\n", runtime.rank(), runtime.world_size());
  return 0;
}

template <class Program>
int report_errors(Program&& program) {
  try {
    return program();
  } catch (const ripieno::Error& e) {
    ripieno::log::error(e.what());
    return static_cast<int>(e.code());
  }
}

}  // namespace

int main(int argc, char** argv) {
  ripieno::log::set_program("failing-program");
  const std::string mode = argc > 1 ? argv[1] : "hello";
  const int failing_rank = argc > 2 ? std::atoi(argv[2]) : 0;
  if (mode == "hello") return report_errors([&] { return says_hello(argc, argv, {}); });
  if (mode == "hello-alone") return report_errors([&] { return says_hello(argc, argv, {.allow_singleton = true}); });
  if (mode == "two-lives") return report_errors([&] { return two_lives(argc, argv, 0); });
  const std::map<std::string, std::function<int(int, char**, int)>> modes = {{"inside-run", inside_run},
                                                                             {"agreed", agreed},
                                                                             {"caught-by-nobody", caught_by_nobody},
                                                                             {"caught-outside", caught_outside},
                                                                             {"lives-on", lives_on},
                                                                             {"killed", killed},
                                                                             {"sleeps", sleeps},
                                                                             {"stopped", stopped},
                                                                             {"takes-part-late", takes_part_late},
                                                                             {"leaves-early", leaves_early},
                                                                             {"mismatched", mismatched}};
  return modes.at(mode)(argc, argv, failing_rank);
}
