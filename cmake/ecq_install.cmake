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

foreach(target IN ITEMS ecq ecq_lbfgs)
  install(TARGETS ${target} EXPORT ${target}Targets)
  install(
    EXPORT ${target}Targets
    NAMESPACE ecq::
    DESTINATION "${ecq_package_dir}"
    COMPONENT library
  )
endforeach()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/ecqConfig.cmake.in" "${PROJECT_BINARY_DIR}/ecqConfig.cmake"
  INSTALL_DESTINATION "${ecq_package_dir}"
)
# Before 1.0 a minor version may break; ARCH_INDEPENDENT because there is nothing compiled.
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/ecqConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT
)
install(
  FILES "${PROJECT_BINARY_DIR}/ecqConfig.cmake" "${PROJECT_BINARY_DIR}/ecqConfigVersion.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindLBFGSpp.cmake"
  DESTINATION "${ecq_package_dir}"
  COMPONENT library
)
