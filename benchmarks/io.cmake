# Random rows from shards beside the same from memory: bin/bench-io. Beside h5py, numpy and torch: benchmarks/io_peers.py.
add_executable(bench-io ${CMAKE_CURRENT_LIST_DIR}/io.cpp)
target_link_libraries(bench-io PRIVATE ripieno_io ripieno_random)
add_executable(bench-io-measure ${CMAKE_CURRENT_LIST_DIR}/io_measure.cpp)
target_link_libraries(bench-io-measure PRIVATE ripieno_io ripieno_random)
# Waiting for batches: bin/bench-stall
add_executable(bench-stall ${CMAKE_CURRENT_LIST_DIR}/stall.cpp)
target_link_libraries(bench-stall PRIVATE ripieno_sampling ripieno_io)
ripieno_use_torch(bench-stall)
