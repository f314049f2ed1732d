ripieno_add_test(reproducible_test
  SOURCES reproducible_test.cpp
  LINK ripieno_io
  LABELS mpi
  TIMEOUT 600)
string(REPLACE ";" " " mpiexec_flags "${RIPIENO_MPIEXEC_FLAGS}")
target_compile_definitions(reproducible_test PRIVATE
  RIPIENO_MPIEXEC="${MPIEXEC_EXECUTABLE}" RIPIENO_MPIEXEC_FLAGS="${mpiexec_flags}")
set_tests_properties(reproducible_test PROPERTIES ENVIRONMENT "${RIPIENO_MPI_TEST_ENVIRONMENT}" PROCESSORS 2)
add_dependencies(reproducible_test ripieno-train ripieno-privacy)
