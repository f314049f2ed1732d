ripieno_add_training_test(reproducible_test DRIVERS ripieno-train ripieno-privacy LINK ripieno_io)
ripieno_add_training_test(train_test DRIVERS ripieno-train ripieno-privacy LINK ripieno_io)
ripieno_add_training_test(resume_test DRIVERS ripieno-train LINK ripieno_io ripieno_ledger)
ripieno_add_training_test(optimizer_options_test DRIVERS ripieno-train LINK ripieno_io)
ripieno_add_training_test(mechanism_test DRIVERS ripieno-train ripieno-privacy LINK ripieno_io ripieno_ledger)
ripieno_add_training_test(run_options_test DRIVERS ripieno-train LINK ripieno_io ripieno_ledger)
ripieno_add_training_test(data_options_test DRIVERS ripieno-train ripieno-dataset LINK ripieno_io)

ripieno_add_training_test(script_train_test DRIVERS ripieno-train LINK ripieno_io TIMEOUT 900)
target_compile_definitions(script_train_test PRIVATE
  RIPIENO_PYTHON="${TORCH_PYTHON}" RIPIENO_TORCHSCRIPT_MODELS="${RIPIENO_TORCHSCRIPT_MODELS}"
  RIPIENO_TORCHSCRIPT_SOURCES="${RIPIENO_TORCHSCRIPT_SOURCES}")
set_tests_properties(script_train_test PROPERTIES FIXTURES_REQUIRED torchscript_models)

# Every error that a command line can trigger: exit code and grammar.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME error_messages_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/errors_test.py ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
set_tests_properties(error_messages_test PROPERTIES TIMEOUT 600 LABELS mpi PROCESSORS 2
  ENVIRONMENT "${RIPIENO_MPI_TEST_ENVIRONMENT}")

# Datasets with one bad part each, trained on by two ranks.
add_test(NAME bad_shards_train_test
  COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/bad_shards_test.py ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
set_tests_properties(bad_shards_train_test PROPERTIES TIMEOUT 600 LABELS mpi PROCESSORS 2
  ENVIRONMENT "${RIPIENO_MPI_TEST_ENVIRONMENT}")
