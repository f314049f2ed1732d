# A private step beside a plain one on a CUDA device, and the noise beside a copy: bin/bench-gpu
if(RIPIENO_CUDA)
  add_executable(bench-gpu ${CMAKE_CURRENT_LIST_DIR}/gpu.cpp ${CMAKE_CURRENT_LIST_DIR}/step_models.cpp)
  target_link_libraries(bench-gpu PRIVATE ripieno_settings ripieno_training TorchWheel::c10_cuda)
  ripieno_use_torch(bench-gpu)
endif()
