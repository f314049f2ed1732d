ripieno_add_test(bookkeeping_test TORCH
  SOURCES bookkeeping_cases.cpp bookkeeping_test.cpp bookkeeping_invariants_test.cpp
  LINK ripieno_clipping)
