# An installed Ripieno, used from outside. The libraries and programs must be built before it runs.
if(NOT RIPIENO_ACCOUNTING_ONLY)
  add_test(NAME consumer_test
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/consumer/run ${PROJECT_BINARY_DIR} ${MPIEXEC_EXECUTABLE} ${RIPIENO_MPIEXEC_FLAGS})
  set_tests_properties(consumer_test PROPERTIES TIMEOUT 900 LABELS "mpi;slow" PROCESSORS 2
    ENVIRONMENT "${RIPIENO_MPI_TEST_ENVIRONMENT}")
endif()
