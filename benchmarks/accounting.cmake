# One epsilon beside other bounds: bin/bench-accounting. Beside other accountants:
#   build/cpu/bin/bench-accounting --json | $(benchmarks/peers/setup accounting) benchmarks/peers/accounting.py
add_executable(bench-accounting ${CMAKE_CURRENT_LIST_DIR}/accounting.cpp)
target_link_libraries(bench-accounting PRIVATE ripieno_accounting)
