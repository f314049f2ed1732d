set(cases bookkeeping_cases.cpp bookkeeping_cases_computed.cpp bookkeeping_cases_layers.cpp bookkeeping_cases_settings.cpp brute_force.cpp)
ripieno_add_test(bookkeeping_test TORCH
  SOURCES ${cases} bookkeeping_cancellation_test.cpp bookkeeping_gradients_test.cpp bookkeeping_invariants_test.cpp
    bookkeeping_pullback_test.cpp bookkeeping_test.cpp
  LINK ripieno_clipping)
# Every engine on every case and on random models: 60 of them, 500 with RIPIENO_FULL=1.
ripieno_add_test(other_engines_test TORCH TIMEOUT 900
  SOURCES ${cases} other_engines_test.cpp random_models.cpp
  LINK ripieno_clipping LABELS slow)
# Small tensors: threads that wait for each other on a full machine cost far more than they save.
set_tests_properties(bookkeeping_test other_engines_test PROPERTIES ENVIRONMENT "OMP_NUM_THREADS=1")
# The tensor operations that devices take in place of the kernels, and every engine on a device that is none: over host
# memory, but no operation may mix its tensors with the processor's.
ripieno_add_test(device_engines_test TORCH SOURCES device_kernels_test.cpp pretend_device.cpp pretend_device_test.cpp
  LINK ripieno_clipping)
