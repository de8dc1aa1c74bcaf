# Install rules: all headers, and one export set a component so that the core's needs none of their dependencies.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(ecq_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/ecq")

install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/include/ecq"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT library
  FILES_MATCHING
  PATTERN "*.hpp"
  PATTERN "*.cuh"
)

# install_target(target component)
function(install_target target component)
  install(TARGETS ${target} EXPORT ${target}Targets ARCHIVE COMPONENT ${component})
  install(
    EXPORT ${target}Targets
    NAMESPACE ecq::
    DESTINATION "${ecq_package_dir}"
    COMPONENT ${component}
  )
endfunction()

install_target(ecq library)
install_target(ecq_lbfgs library)
if(ECQ_INSTALL_COMPILED)
  set_target_properties(ecq_compiled PROPERTIES EXCLUDE_FROM_ALL OFF)
  install_target(ecq_compiled compiled)
endif()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/ecqConfig.cmake.in" "${PROJECT_BINARY_DIR}/ecqConfig.cmake"
  INSTALL_DESTINATION "${ecq_package_dir}"
)
# Before 1.0 a minor version may break; ARCH_INDEPENDENT because the core is headers. The component that is not checks
# for itself.
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/ecqConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT
)
install(
  FILES "${PROJECT_BINARY_DIR}/ecqConfig.cmake" "${PROJECT_BINARY_DIR}/ecqConfigVersion.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindLBFGSpp.cmake"
  DESTINATION "${ecq_package_dir}"
  COMPONENT library
)
