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
