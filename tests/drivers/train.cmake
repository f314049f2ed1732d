ripieno_add_test(train_test
  SOURCES train_test.cpp
  LINK ripieno_io
  LABELS mpi
  TIMEOUT 600)
string(REPLACE ";" " " mpiexec_flags "${RIPIENO_MPIEXEC_FLAGS}")
target_compile_definitions(train_test PRIVATE
  RIPIENO_MPIEXEC="${MPIEXEC_EXECUTABLE}" RIPIENO_MPIEXEC_FLAGS="${mpiexec_flags}")
set_tests_properties(train_test PROPERTIES ENVIRONMENT "${RIPIENO_MPI_TEST_ENVIRONMENT}" PROCESSORS 2)
add_dependencies(train_test ripieno-train ripieno-privacy)

ripieno_add_test(resume_test
  SOURCES resume_test.cpp
  LINK ripieno_io ripieno_ledger
  LABELS mpi
  TIMEOUT 600)
target_compile_definitions(resume_test PRIVATE
  RIPIENO_MPIEXEC="${MPIEXEC_EXECUTABLE}" RIPIENO_MPIEXEC_FLAGS="${mpiexec_flags}")
set_tests_properties(resume_test PROPERTIES ENVIRONMENT "${RIPIENO_MPI_TEST_ENVIRONMENT}" PROCESSORS 2)
add_dependencies(resume_test ripieno-train)

ripieno_add_test(script_train_test
  SOURCES script_train_test.cpp
  LINK ripieno_io
  LABELS mpi
  TIMEOUT 900)
target_compile_definitions(script_train_test PRIVATE
  RIPIENO_MPIEXEC="${MPIEXEC_EXECUTABLE}" RIPIENO_MPIEXEC_FLAGS="${mpiexec_flags}" RIPIENO_PYTHON="${TORCH_PYTHON}"
  RIPIENO_TORCHSCRIPT_MODELS="${RIPIENO_TORCHSCRIPT_MODELS}"
  RIPIENO_TORCHSCRIPT_SOURCES="${RIPIENO_TORCHSCRIPT_SOURCES}")
set_tests_properties(script_train_test PROPERTIES
  ENVIRONMENT "${RIPIENO_MPI_TEST_ENVIRONMENT}" PROCESSORS 2 FIXTURES_REQUIRED torchscript_models)
add_dependencies(script_train_test ripieno-train)

ripieno_add_test(run_options_test
  SOURCES run_options_test.cpp
  LINK ripieno_io ripieno_ledger
  LABELS mpi
  TIMEOUT 600)
target_compile_definitions(run_options_test PRIVATE
  RIPIENO_MPIEXEC="${MPIEXEC_EXECUTABLE}" RIPIENO_MPIEXEC_FLAGS="${mpiexec_flags}")
set_tests_properties(run_options_test PROPERTIES ENVIRONMENT "${RIPIENO_MPI_TEST_ENVIRONMENT}")
add_dependencies(run_options_test ripieno-train)

ripieno_add_test(data_options_test
  SOURCES data_options_test.cpp
  LINK ripieno_io
  LABELS mpi
  TIMEOUT 600)
target_compile_definitions(data_options_test PRIVATE
  RIPIENO_MPIEXEC="${MPIEXEC_EXECUTABLE}" RIPIENO_MPIEXEC_FLAGS="${mpiexec_flags}")
set_tests_properties(data_options_test PROPERTIES ENVIRONMENT "${RIPIENO_MPI_TEST_ENVIRONMENT}")
add_dependencies(data_options_test ripieno-train ripieno-dataset)
