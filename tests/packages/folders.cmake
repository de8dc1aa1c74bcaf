# Installs headers alone, in folders that are not the usual ones. What would be compiled is optimised.
cmake_minimum_required(VERSION 3.22)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

# CMake refuses to name a folder within the sources, where the build tree may lie.
set(elsewhere "$ENV{TMPDIR}")
if(NOT elsewhere)
  set(elsewhere /tmp)
endif()
string(RANDOM LENGTH 12 name)
string(APPEND elsewhere "/ecq_headers_${name}")

foreach(headers IN ITEMS include/of "${elsewhere}")
  run("${CMAKE_COMMAND}" -S "${source}" -B "${scratch}/build" -G "${generator}" "-DCMAKE_CXX_COMPILER=${compiler}"
      -DECQ_BUILD_BENCHMARKS=OFF -DECQ_BUILD_EXAMPLES=OFF -DECQ_BUILD_TESTS=OFF -DECQ_BUILD_TOOL=OFF
      "-DCMAKE_INSTALL_INCLUDEDIR=${headers}"
  )
  file(REMOVE_RECURSE "${scratch}/prefix")
  run("${CMAKE_COMMAND}" --install "${scratch}/build" --prefix "${scratch}/prefix" --component library)
  require_version_found("${scratch}/prefix")
  require_file("${scratch}/prefix" share/doc/ecq/LICENSE)
  file(STRINGS "${scratch}/prefix/share/pkgconfig/ecq.pc" of_pkg_config REGEX "^includedir=")
  string(REPLACE "includedir=" "" of_pkg_config "${of_pkg_config}")
  string(REPLACE "\${pcfiledir}" "${scratch}/prefix/share/pkgconfig" of_pkg_config "${of_pkg_config}")
  require_file("${of_pkg_config}" ecq/ecq.hpp)
endforeach()
file(REMOVE_RECURSE "${elsewhere}")
load_cache("${scratch}/build" READ_WITH_PREFIX cached_ CMAKE_BUILD_TYPE)
require_equal("the build type" "${cached_CMAKE_BUILD_TYPE}" Release)
