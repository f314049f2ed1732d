#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <ripieno/framework/comm/checked_communicator.hpp>
#include <ripieno/framework/comm/mpi_internal.hpp>

#include "mpi_test.hpp"
#include "rank_failures.hpp"

namespace ripieno::testing {
namespace {

std::unique_ptr<Communicator> world_of_tests;

double watchdog_timeout_s() {
  const char* const text = std::getenv("RIPIENO_TEST_WATCHDOG_S");
  return text != nullptr ? std::atof(text) : 60;
}

/// All ranks fail when one does. MPI is started here and not by a Runtime, so that tests can make Runtimes of their
/// own.
int run_all_tests() {
  const MpiCommunicator harness(MPI_COMM_WORLD);
  world_of_tests = make_checked_communicator(std::make_unique<MpiCommunicator>(MPI_COMM_WORLD));
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (harness.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  auto* const failures = new RankFailures(harness, watchdog_timeout_s());
  listeners.Append(failures);

  std::array<std::int64_t, 1> status{RUN_ALL_TESTS()};
  delete listeners.Release(failures);
  harness.allreduce_max(std::span<std::int64_t>(status));
  world_of_tests.reset();
  return static_cast<int>(status[0]);
}

}  // namespace

const Communicator& world() { return *world_of_tests; }

}  // namespace ripieno::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const int status = ripieno::testing::run_all_tests();
  MPI_Finalize();
  return status;
}
