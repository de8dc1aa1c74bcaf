# LBFGS++ (https://lbfgspp.statr.me, Debian: liblbfgspp-dev), header-only on top of Eigen, without a CMake package of
# its own before 0.2. Defines LBFGSpp::LBFGSpp.

include(CMakeFindDependencyMacro)
if(NOT TARGET Eigen3::Eigen)
  find_dependency(Eigen3 3.3)
endif()

find_path(LBFGSpp_INCLUDE_DIR LBFGS.h DOC "Folder of LBFGS.h")
mark_as_advanced(LBFGSpp_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LBFGSpp REQUIRED_VARS LBFGSpp_INCLUDE_DIR)

if(LBFGSpp_FOUND AND NOT TARGET LBFGSpp::LBFGSpp)
  add_library(LBFGSpp::LBFGSpp INTERFACE IMPORTED)
  target_include_directories(LBFGSpp::LBFGSpp INTERFACE "${LBFGSpp_INCLUDE_DIR}")
  target_link_libraries(LBFGSpp::LBFGSpp INTERFACE Eigen3::Eigen)
endif()
