# One epsilon beside other bounds: bin/bench-accounting
add_executable(bench-accounting ${CMAKE_CURRENT_LIST_DIR}/accounting.cpp)
target_link_libraries(bench-accounting PRIVATE ripieno_accounting)
