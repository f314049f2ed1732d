# The end of a step with state on every rank or in slices, and optimizers beside memcpy: mpiexec -n W bin/bench-shard
add_executable(bench-shard ${CMAKE_CURRENT_LIST_DIR}/shard.cpp)
target_link_libraries(bench-shard PRIVATE ripieno_settings ripieno_training)
ripieno_use_torch(bench-shard)
