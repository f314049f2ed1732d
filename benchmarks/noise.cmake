# Normal deviates beside Torch's: bin/bench-noise
add_executable(bench-noise ${CMAKE_CURRENT_LIST_DIR}/noise.cpp)
target_link_libraries(bench-noise PRIVATE ripieno_random)
ripieno_use_torch(bench-noise)
