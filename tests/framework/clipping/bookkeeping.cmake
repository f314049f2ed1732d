ripieno_add_test(bookkeeping_test TORCH
  SOURCES bookkeeping_cases.cpp bookkeeping_cases_computed.cpp bookkeeping_cases_layers.cpp bookkeeping_gradients_test.cpp
    bookkeeping_invariants_test.cpp bookkeeping_pullback_test.cpp bookkeeping_test.cpp
  LINK ripieno_clipping)
