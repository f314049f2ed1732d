# A clipped step beside a plain one: bin/bench-step
add_executable(bench-step ${CMAKE_CURRENT_LIST_DIR}/step.cpp)
target_link_libraries(bench-step PRIVATE ripieno_settings ripieno_clipping)
ripieno_use_torch(bench-step)
