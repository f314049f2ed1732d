# A private step beside a plain one: bin/bench-step
add_executable(bench-step ${CMAKE_CURRENT_LIST_DIR}/step.cpp ${CMAKE_CURRENT_LIST_DIR}/step_models.cpp)
target_link_libraries(bench-step PRIVATE ripieno_settings ripieno_clipping ripieno_noise ripieno_optim ripieno_profiling)
ripieno_use_torch(bench-step)
