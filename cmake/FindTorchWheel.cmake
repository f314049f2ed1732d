# TorchWheel::cpu: libtorch_cpu and libc10 of a pip wheel (CPU or CUDA build), for CPU use without a CUDA toolkit.
#
# Torch's own package configuration insists on a CUDA toolkit when the wheel is a CUDA build and puts the toolkit's
# libraries before the wheel's. Here only the two CPU libraries are linked.
#   TORCH_DIR  the torch package folder (site-packages/torch); by default that of the virtual environment made by
#              scripts/setup, or of the python3 on PATH.

set(TORCH_DIR "" CACHE PATH "the torch package folder (site-packages/torch)")
if(NOT TORCH_DIR)
  if(DEFINED ENV{RIPIENO_VENV})
    set(_venv $ENV{RIPIENO_VENV})
  elseif(DEFINED ENV{XDG_DATA_HOME})
    set(_venv $ENV{XDG_DATA_HOME}/ripieno/venv)
  else()
    set(_venv $ENV{HOME}/.local/share/ripieno/venv)
  endif()
  find_program(TORCH_PYTHON NAMES python3 HINTS ${_venv}/bin ENV VIRTUAL_ENV PATH_SUFFIXES bin)
  if(TORCH_PYTHON)
    # find_spec locates the package without importing it.
    execute_process(
      COMMAND ${TORCH_PYTHON} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE _torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    set_property(CACHE TORCH_DIR PROPERTY VALUE "${_torch_dir}")
  endif()
endif()

find_library(TORCH_CPU_LIB torch_cpu PATHS ${TORCH_DIR}/lib NO_DEFAULT_PATH)
find_library(TORCH_C10_LIB c10 PATHS ${TORCH_DIR}/lib NO_DEFAULT_PATH)
find_path(TORCH_INCLUDE_DIR ATen/ATen.h PATHS ${TORCH_DIR}/include NO_DEFAULT_PATH)
if(EXISTS ${TORCH_DIR}/version.py)
  file(STRINGS ${TORCH_DIR}/version.py _version_line REGEX "^__version__ = ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" TorchWheel_VERSION "${_version_line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TorchWheel
  REQUIRED_VARS TORCH_CPU_LIB TORCH_C10_LIB TORCH_INCLUDE_DIR VERSION_VAR TorchWheel_VERSION
  REASON_FAILURE_MESSAGE "Run scripts/setup, or set TORCH_DIR to the torch package folder of a Python environment.")
if(TorchWheel_FOUND AND (TorchWheel_VERSION VERSION_LESS 2.11 OR TorchWheel_VERSION VERSION_GREATER_EQUAL 2.16))
  message(FATAL_ERROR "Torch ${TorchWheel_VERSION} is outside the tested range 2.11 … 2.15; set TORCH_DIR to one inside it.")
endif()

if(TorchWheel_FOUND AND NOT TARGET TorchWheel::cpu)
  add_library(TorchWheel::c10 SHARED IMPORTED)
  set_target_properties(TorchWheel::c10 PROPERTIES IMPORTED_LOCATION ${TORCH_C10_LIB})
  add_library(TorchWheel::cpu SHARED IMPORTED)
  set_target_properties(TorchWheel::cpu PROPERTIES
    IMPORTED_LOCATION ${TORCH_CPU_LIB}
    INTERFACE_INCLUDE_DIRECTORIES "${TORCH_INCLUDE_DIR};${TORCH_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES TorchWheel::c10)
  # libtorch_cpu finds its CUDA run-time libraries by its own RPATH; the linker needs not see them.
  target_link_options(TorchWheel::cpu INTERFACE -Wl,--allow-shlib-undefined)
endif()
