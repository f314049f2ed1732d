# cmake --install BUILD [--prefix DIR] [--component accounting]
# Two components: `accounting`, which is ripieno-privacy and the library behind it, and `framework`, all the rest.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Ripieno)

# Inside the build the engine alone is called accounting; outside, ripieno::accounting is engine, ledger and plan together.
set_target_properties(ripieno_accounting PROPERTIES EXPORT_NAME accounting_engine)
set_target_properties(ripieno_ledger PROPERTIES EXPORT_NAME accounting)

# install(TARGETS) of libraries with their names from outside; a header's folder is its path in the source.
function(ripieno_install_libraries component)
  foreach(library ${ARGN})
    get_target_property(name ${library} EXPORT_NAME)
    if(NOT name)
      string(REGEX REPLACE "^ripieno_" "" name ${library})
      set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
    endif()
  endforeach()
  install(TARGETS ${ARGN} EXPORT ripieno-${component} COMPONENT ${component} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT ripieno-${component} NAMESPACE ripieno:: DESTINATION ${package_dir} COMPONENT ${component})
endfunction()

function(ripieno_install_headers component)
  install(DIRECTORY ${ARGN} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ripieno COMPONENT ${component}
    FILES_MATCHING PATTERN "*.hpp" PATTERN "*_internal.hpp" EXCLUDE)
endfunction()

set(accounting_libraries ripieno_base ripieno_cli ripieno_accounting ripieno_mechanisms ripieno_ledger ripieno_plot)
ripieno_install_libraries(accounting ripieno_settings ${accounting_libraries})
ripieno_install_headers(accounting accounting)
install(FILES ${RIPIENO_INCLUDE_DIR}/ripieno/version.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ripieno COMPONENT accounting)
install(TARGETS ripieno-privacy COMPONENT accounting)
function(ripieno_install_completion component)
  foreach(program ${ARGN})
    install(FILES drivers/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${program}
      COMPONENT ${component})
  endforeach()
endfunction()
ripieno_install_completion(accounting ripieno-privacy)
# A manual page is what --help says, so it is made once the program is there. Without Python there are none.
find_package(Python3 COMPONENTS Interpreter)
function(ripieno_install_man_pages component)
  if(NOT Python3_FOUND)
    return()
  endif()
  foreach(program ${ARGN})
    set(page ${PROJECT_BINARY_DIR}/man/${program}.1)
    add_custom_command(OUTPUT ${page}
      COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/cmake/man_page.py $<TARGET_FILE:${program}> ${page}
      DEPENDS ${program} ${PROJECT_SOURCE_DIR}/cmake/man_page.py VERBATIM)
    add_custom_target(man-${program} ALL DEPENDS ${page})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
  endforeach()
endfunction()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man)
ripieno_install_man_pages(accounting ripieno-privacy)
install(FILES README.md LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT accounting)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT accounting)

configure_package_config_file(cmake/RipienoConfig.cmake.in ${PROJECT_BINARY_DIR}/RipienoConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/RipienoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/RipienoConfig.cmake ${PROJECT_BINARY_DIR}/RipienoConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT accounting)

if(NOT RIPIENO_ACCOUNTING_ONLY)
  get_property(framework_libraries GLOBAL PROPERTY RIPIENO_LIBRARIES)
  list(REMOVE_ITEM framework_libraries ${accounting_libraries})
  ripieno_install_libraries(framework ripieno_mpi ripieno_framework ${framework_libraries})
  ripieno_install_headers(framework io framework)
  install(FILES framework/ripieno.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ripieno COMPONENT framework)
  install(FILES cmake/RipienoFind.cmake cmake/FindTorchWheel.cmake cmake/RipienoCuda.cmake cmake/FindNCCL.cmake DESTINATION ${package_dir} COMPONENT framework)
  # Torch is found where it was when this was built.
  set_target_properties(ripieno-train PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS ripieno-train ripieno-dataset COMPONENT framework)
  ripieno_install_completion(framework ripieno-train ripieno-dataset)
  ripieno_install_man_pages(framework ripieno-train ripieno-dataset)
  install(DIRECTORY drivers/recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/ripieno COMPONENT framework)
endif()
