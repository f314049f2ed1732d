# ripieno_add_test(NAME SOURCES a_test.cpp … LINK targets… [TORCH] [LABELS …] [TIMEOUT s] [ARGS …]): one GoogleTest
# executable, one ctest entry.
# ripieno_add_mpi_test(NAME NP 1 2 4 SOURCES … LINK … [TORCH] [LABELS …] [TIMEOUT s]): the same under mpiexec, one ctest
# entry NAME_npN for each number of ranks. Its main function is tests/mpi/mpi_main.cpp: a failure on one rank fails the
# test on all, and a test that hangs is reported by name within 60 s. Sources may include "mpi_test.hpp".

find_package(GTest REQUIRED)

set(RIPIENO_TEST_DATA ${PROJECT_SOURCE_DIR}/tests/data)

function(_ripieno_test_executable name torch sources link)
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ripieno_settings ${link} GTest::gtest GTest::gmock)
  target_compile_definitions(${name} PRIVATE
    RIPIENO_TEST_DATA="${RIPIENO_TEST_DATA}" RIPIENO_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
    RIPIENO_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(torch)
    ripieno_use_torch(${name})
  endif()
  # Whoever builds accounting alone does so once: sources of a test then share what they include and instantiate, which
  # costs more than the tests themselves.
  if(RIPIENO_ACCOUNTING_ONLY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  endif()
endfunction()

function(ripieno_add_test name)
  cmake_parse_arguments(arg "TORCH" "TIMEOUT" "SOURCES;LINK;LABELS;ARGS" ${ARGN})
  _ripieno_test_executable(${name} "${arg_TORCH}" "${arg_SOURCES}" "${arg_LINK}")
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
    ENVIRONMENT "OMP_NUM_THREADS=2")
endfunction()

# For ctest entries that run mpiexec, themselves or through the program under test. Ranks outnumber cores here: a waiting
# rank must yield.
set(RIPIENO_MPI_TEST_ENVIRONMENT
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
  OMPI_MCA_btl_base_warn_component_unused=0 OMP_NUM_THREADS=1)
set(RIPIENO_MPIEXEC_FLAGS --oversubscribe --bind-to none)

function(ripieno_add_mpi_test name)
  cmake_parse_arguments(arg "TORCH" "TIMEOUT" "NP;SOURCES;LINK;LABELS" ${ARGN})
  _ripieno_test_executable(${name} "${arg_TORCH}" "${arg_SOURCES}" "${arg_LINK}")
  target_link_libraries(${name} PRIVATE ripieno_mpi_test_main)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 180)
  endif()
  foreach(np ${arg_NP})
    add_test(NAME ${name}_np${np}
      COMMAND ${MPIEXEC_EXECUTABLE} ${RIPIENO_MPIEXEC_FLAGS} -n ${np} $<TARGET_FILE:${name}> --gtest_brief=1)
    set_tests_properties(${name}_np${np} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "mpi;${arg_LABELS}" PROCESSORS ${np}
      ENVIRONMENT "${RIPIENO_MPI_TEST_ENVIRONMENT}")
  endforeach()
endfunction()
