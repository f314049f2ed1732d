# What the cuda preset adds: nvcc, NCCL, and the CUDA half of the torch wheel.

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "GPU architectures: 80 is A100, 90 is H100 and H200")
endif()
find_program(RIPIENO_NVCC nvcc HINTS /usr/local/cuda/bin ENV CUDA_HOME PATH_SUFFIXES bin)
if(RIPIENO_NVCC AND NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${RIPIENO_NVCC})
endif()
enable_language(CUDA)
# CMake 3.25 does not know that nvcc takes these.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
find_package(CUDAToolkit REQUIRED)
find_package(NCCL 2.18 REQUIRED)

# Nothing refers to libtorch_cuda: it registers its kernels when it is loaded. Its own libraries it finds by its RPATH.
# Whoever uses Torch links these and sees no header of theirs: so nearly every file compiles as in the cpu preset, and
# ccache has it.
find_library(TORCH_CUDA_LIB torch_cuda PATHS ${TORCH_DIR}/lib NO_DEFAULT_PATH)
find_library(TORCH_C10_CUDA_LIB c10_cuda PATHS ${TORCH_DIR}/lib NO_DEFAULT_PATH)
if(NOT TORCH_CUDA_LIB OR NOT TORCH_C10_CUDA_LIB)
  message(FATAL_ERROR "The torch package in ${TORCH_DIR} is a CPU build. Set TORCH_DIR to one with CUDA, or use the cpu preset.")
endif()
add_library(TorchWheel::c10_cuda SHARED IMPORTED)
set_target_properties(TorchWheel::c10_cuda PROPERTIES IMPORTED_LOCATION ${TORCH_C10_CUDA_LIB})
target_link_libraries(TorchWheel::c10_cuda INTERFACE TorchWheel::c10 CUDA::cudart)
target_link_libraries(TorchWheel::cpu INTERFACE
  -Wl,--no-as-needed ${TORCH_CUDA_LIB} -Wl,--as-needed $<LINK_ONLY:TorchWheel::c10_cuda> $<LINK_ONLY:NCCL::nccl>)
