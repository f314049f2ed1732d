# Random rows from shards beside the same from memory: bin/bench-io
add_executable(bench-io ${CMAKE_CURRENT_LIST_DIR}/io.cpp)
target_link_libraries(bench-io PRIVATE ripieno_io)
