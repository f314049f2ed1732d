# What a checkpoint costs the steps beside it: bin/bench-checkpoint
add_executable(bench-checkpoint ${CMAKE_CURRENT_LIST_DIR}/checkpoint.cpp)
target_link_libraries(bench-checkpoint PRIVATE ripieno_settings ripieno_training)
ripieno_use_torch(bench-checkpoint)
