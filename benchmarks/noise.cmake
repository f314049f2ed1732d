# Normal deviates beside Torch's: bin/bench-noise; strategies of correlated noise: mpiexec -n W bin/bench-noise --strategies
add_executable(bench-noise ${CMAKE_CURRENT_LIST_DIR}/noise.cpp ${CMAKE_CURRENT_LIST_DIR}/noise_strategies.cpp)
target_link_libraries(bench-noise PRIVATE ripieno_settings ripieno_random ripieno_noise ripieno_training)
ripieno_use_torch(bench-noise)
