# Settings shared by every target, and the helpers that make one.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

# ccache needs these three to reuse results from another checkout and from files that use a precompiled header.
find_program(RIPIENO_CCACHE ccache)
if(RIPIENO_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${RIPIENO_CCACHE})
endif()

# Sources include <ripieno/PART/...>; the build tree offers that path as links to the source folders.
set(RIPIENO_INCLUDE_DIR ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${RIPIENO_INCLUDE_DIR}/ripieno)
foreach(part accounting io framework)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${part} ${RIPIENO_INCLUDE_DIR}/ripieno/${part} SYMBOLIC)
endforeach()
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/framework/ripieno.hpp ${RIPIENO_INCLUDE_DIR}/ripieno/ripieno.hpp SYMBOLIC)
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.hpp.in ${RIPIENO_INCLUDE_DIR}/ripieno/version.hpp)

add_library(ripieno_settings INTERFACE)
target_include_directories(ripieno_settings INTERFACE
  $<BUILD_INTERFACE:${RIPIENO_INCLUDE_DIR}> $<INSTALL_INTERFACE:include>)
target_compile_features(ripieno_settings INTERFACE cxx_std_20)
target_compile_options(ripieno_settings INTERFACE
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wno-psabi;$<$<BOOL:${RIPIENO_WERROR}>:-Werror>>>
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;$<$<BOOL:${RIPIENO_WERROR}>:--Werror=all-warnings>>>)

# ripieno_add_library(NAME [TORCH] SOURCES a.cpp … [LINK …] [LINK_PRIVATE …]): a static library ripieno_NAME.
# TORCH adds OpenMP (at::parallel_for is silently serial without it) and the shared precompiled header.
function(ripieno_add_library name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;LINK;LINK_PRIVATE" ${ARGN})
  add_library(ripieno_${name} STATIC ${arg_SOURCES})
  target_link_libraries(ripieno_${name} PUBLIC ripieno_settings ${arg_LINK} PRIVATE ${arg_LINK_PRIVATE})
  set_property(GLOBAL APPEND PROPERTY RIPIENO_LIBRARIES ripieno_${name})
  if(arg_TORCH)
    ripieno_use_torch(ripieno_${name})
  endif()
endfunction()

# -fPIC because executables would get -fPIE, for which the precompiled header is not made.
function(ripieno_use_torch target)
  target_link_libraries(${target} PUBLIC TorchWheel::cpu)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC;-fopenmp;-fpch-preprocess>)
  target_link_options(${target} PUBLIC -fopenmp)
  target_precompile_headers(${target} REUSE_FROM ripieno_torch_pch)
endfunction()

# For code that reads options and writes texts: optimising it takes most of the time to compile it, and saves none.
function(ripieno_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()
