# ripieno_add_test(NAME SOURCES a_test.cpp … LINK targets… [TORCH] [LABELS …] [TIMEOUT s]): one GoogleTest executable, one
# ctest entry a test case group.
# ripieno_add_mpi_test(NAME NP 1 2 4 SOURCES … LINK … [TORCH] [LABELS …] [TIMEOUT s]): the same executable under mpiexec,
# one ctest entry for each number of ranks. It links tests/mpi_main.cpp.

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
endfunction()

function(ripieno_add_test name)
  cmake_parse_arguments(arg "TORCH" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  _ripieno_test_executable(${name} "${arg_TORCH}" "${arg_SOURCES}" "${arg_LINK}")
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
    ENVIRONMENT "OMP_NUM_THREADS=2")
endfunction()

function(ripieno_add_mpi_test name)
  cmake_parse_arguments(arg "TORCH" "TIMEOUT" "NP;SOURCES;LINK;LABELS" ${ARGN})
  _ripieno_test_executable(${name} "${arg_TORCH}" "${arg_SOURCES}" "${arg_LINK}")
  target_link_libraries(${name} PRIVATE ripieno_mpi_test_main)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 180)
  endif()
  foreach(np ${arg_NP})
    add_test(NAME ${name}_np${np}
      COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -n ${np} $<TARGET_FILE:${name}> --gtest_brief=1)
    set_tests_properties(${name}_np${np} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "mpi;${arg_LABELS}" PROCESSORS 2
      ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_mpi_yield_when_idle=1;OMPI_MCA_btl_base_warn_component_unused=0;OMP_NUM_THREADS=1")
  endforeach()
endfunction()
