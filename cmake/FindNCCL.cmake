# NCCL::nccl. In one process with torch there is one NCCL, and torch may need a newer one than the system has: so the wheel
# beside torch is taken first. NCCL_ROOT, in CMake or the environment, overrides.

cmake_path(GET TORCH_DIR PARENT_PATH _site_packages)
find_path(NCCL_INCLUDE_DIR nccl.h
  HINTS ${NCCL_ROOT} ENV NCCL_ROOT ${_site_packages}/nvidia/nccl ${CUDAToolkit_ROOT} /usr/local/cuda PATH_SUFFIXES include)
cmake_path(GET NCCL_INCLUDE_DIR PARENT_PATH _nccl_root)
# The wheel has no link named libnccl.so.
find_file(NCCL_LIBRARY NAMES libnccl.so.2 libnccl.so
  HINTS ${_nccl_root}/lib ${_nccl_root}/lib64 ${_nccl_root}/lib/${CMAKE_LIBRARY_ARCHITECTURE} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})

if(NCCL_INCLUDE_DIR)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h _lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3" NCCL_VERSION "${_lines}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION
  REASON_FAILURE_MESSAGE "Run scripts/setup --cuda, or set NCCL_ROOT.")

if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl SHARED IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES
    IMPORTED_LOCATION ${NCCL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
  target_link_libraries(NCCL::nccl INTERFACE CUDA::cudart)
endif()
