# Install rules: all headers, and one export set per component, so that the core needs none of their dependencies.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(ECQ_INSTALL_CMAKEDIR "${CMAKE_INSTALL_DATADIR}/cmake/ecq" CACHE STRING "Folder of ecqConfig.cmake")

install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/include/ecq"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT library
  FILES_MATCHING
  PATTERN "*.hpp"
  PATTERN "*.cuh"
)

# Licences. If a parent project installs its documentation, ecq has a folder of its own.
set(ecq_install_docdir "${CMAKE_INSTALL_DOCDIR}")
if(NOT ecq_is_top_level)
  set(ecq_install_docdir "${CMAKE_INSTALL_DATAROOTDIR}/doc/ecq")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${ecq_install_docdir}" COMPONENT library)

# ecq_install_target(target component)
function(ecq_install_target target component)
  install(
    TARGETS ${target}
    EXPORT ${target}Targets
    ARCHIVE COMPONENT ${component}
    INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  )
  install(
    EXPORT ${target}Targets
    NAMESPACE ecq::
    DESTINATION "${ECQ_INSTALL_CMAKEDIR}"
    COMPONENT ${component}
  )
endfunction()

ecq_install_target(ecq library)
ecq_install_target(ecq_lbfgs library)
ecq_install_target(ecq_calibrated library)
if(ECQ_INSTALL_COMPILED)
  set_target_properties(ecq_compiled PROPERTIES EXCLUDE_FROM_ALL OFF)
  ecq_install_target(ecq_compiled compiled)
  # The machine that the component is for; the files of the headers are the same for all machines.
  file(WRITE "${PROJECT_BINARY_DIR}/ecq_compiledMachine.cmake"
       "set(ecq_compiled_processor \"${CMAKE_SYSTEM_PROCESSOR}\")\nset(ecq_compiled_pointer ${CMAKE_SIZEOF_VOID_P})\n"
  )
  install(
    FILES "${PROJECT_BINARY_DIR}/ecq_compiledMachine.cmake"
    DESTINATION "${ECQ_INSTALL_CMAKEDIR}"
    COMPONENT compiled
  )
endif()
if(ECQ_INSTALL_COMPILED_CUDA)
  if(NOT ECQ_INSTALL_COMPILED)
    message(FATAL_ERROR "ECQ_INSTALL_COMPILED_CUDA needs ECQ_INSTALL_COMPILED: ecq::compiled_cuda links ecq::compiled")
  endif()
  set_target_properties(ecq_compiled_cuda PROPERTIES EXCLUDE_FROM_ALL OFF)
  ecq_install_target(ecq_compiled_cuda compiled_cuda)
endif()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/ecqConfig.cmake.in" "${PROJECT_BINARY_DIR}/ecqConfig.cmake"
  INSTALL_DESTINATION "${ECQ_INSTALL_CMAKEDIR}"
)
# Before 1.0, a minor version may break compatibility. ARCH_INDEPENDENT because the core consists of headers; the
# component that does not checks for itself.
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/ecqConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT
)
install(
  FILES "${PROJECT_BINARY_DIR}/ecqConfig.cmake" "${PROJECT_BINARY_DIR}/ecqConfigVersion.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindLBFGSpp.cmake"
  DESTINATION "${ECQ_INSTALL_CMAKEDIR}"
  COMPONENT library
)

# For projects that do not use CMake. The headers are found relative to the file, so that all may be moved together.
set(ecq_pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")
if(NOT IS_ABSOLUTE "${ecq_pc_includedir}")
  file(RELATIVE_PATH ecq_pc_includedir "${CMAKE_INSTALL_FULL_DATADIR}/pkgconfig" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
  string(PREPEND ecq_pc_includedir "\${pcfiledir}/")
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/ecq.pc.in" "${PROJECT_BINARY_DIR}/ecq.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/ecq.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig" COMPONENT library)
