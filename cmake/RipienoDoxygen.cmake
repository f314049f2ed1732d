# The target doxygen-docs: an API reference of the public headers in BUILD/doxygen/html. Any warning is an error. Without
# doxygen there is no target; RIPIENO_DOXYFILE is set with it.
find_program(DOXYGEN_PROGRAM doxygen)
if(DOXYGEN_PROGRAM)
  set(DOXYGEN_INPUT "${PROJECT_SOURCE_DIR}/accounting")
  if(NOT RIPIENO_ACCOUNTING_ONLY)
    string(APPEND DOXYGEN_INPUT " ${PROJECT_SOURCE_DIR}/io ${PROJECT_SOURCE_DIR}/framework")
  endif()
  set(RIPIENO_DOXYFILE ${PROJECT_BINARY_DIR}/Doxyfile)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/Doxyfile.in ${RIPIENO_DOXYFILE} @ONLY)
  add_custom_target(doxygen-docs COMMAND ${DOXYGEN_PROGRAM} ${RIPIENO_DOXYFILE} VERBATIM)
endif()
