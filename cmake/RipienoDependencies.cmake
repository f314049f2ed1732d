# What io and framework need beyond accounting.

include(RipienoFind)
if(RIPIENO_CUDA)
  include(RipienoCuda)
endif()
find_package(Eigen3 REQUIRED NO_MODULE)  # headers of its FFT; none is installed

add_library(ripieno_mpi INTERFACE)
target_link_libraries(ripieno_mpi INTERFACE MPI::MPI_C)
target_compile_definitions(ripieno_mpi INTERFACE OMPI_SKIP_MPICXX)

# One precompiled header for every target that includes ATen: 2 s a file instead of 7.
add_library(ripieno_torch_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/torch_pch.cpp)
target_link_libraries(ripieno_torch_pch PUBLIC ripieno_settings TorchWheel::cpu)
target_compile_options(ripieno_torch_pch PRIVATE -fopenmp -fpch-preprocess)
target_precompile_headers(ripieno_torch_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/torch_pch.hpp)
