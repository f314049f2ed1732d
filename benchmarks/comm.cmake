# Collectives beside raw MPI, training steps and a scaling model: benchmarks/comm.sh
add_executable(bench-comm ${CMAKE_CURRENT_LIST_DIR}/comm.cpp ${CMAKE_CURRENT_LIST_DIR}/scaling_model.cpp)
target_link_libraries(bench-comm PRIVATE ripieno_settings ripieno_training ripieno_mpi)
ripieno_use_torch(bench-comm)
