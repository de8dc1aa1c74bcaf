# Installs the overlay port by vcpkg itself.
cmake_minimum_required(VERSION 3.22)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

if(NOT DEFINED ENV{VCPKG_ROOT})
  skip("VCPKG_ROOT is not set")
endif()
set(ENV{CXX} "${compiler}")
run("$ENV{VCPKG_ROOT}/vcpkg" install ecq --classic --overlay-ports=${source}/cmake/vcpkg/ports --no-binarycaching
    --x-install-root=${scratch}/installed --x-buildtrees-root=${scratch}/buildtrees
    --x-packages-root=${scratch}/packages --no-print-usage
)
if(output MATCHES "warning:")
  message(SEND_ERROR "vcpkg has something to say:\n${output}")
endif()
file(GLOB config "${scratch}/installed/*/share/ecq/ecqConfig.cmake")
if(NOT config)
  message(FATAL_ERROR "vcpkg has not installed ecqConfig.cmake\n${output}")
endif()
get_filename_component(prefix "${config}/../../.." ABSOLUTE)
require_version_found("${prefix}")
