# Steps of TorchScript models, for benchmarks/peers/step.py: bin/bench-script-step
add_executable(bench-script-step ${CMAKE_CURRENT_LIST_DIR}/script_step.cpp)
target_link_libraries(bench-script-step PRIVATE
  ripieno_settings ripieno_clipping ripieno_functional ripieno_noise ripieno_optim)
ripieno_use_torch(bench-script-step)
