# Normal deviates beside Torch's: bin/bench-noise
add_executable(bench-noise ${CMAKE_CURRENT_LIST_DIR}/noise.cpp ${CMAKE_CURRENT_LIST_DIR}/noise_strategies.cpp)
target_link_libraries(bench-noise PRIVATE ripieno_random ripieno_noise)
ripieno_use_torch(bench-noise)
