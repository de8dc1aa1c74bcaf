# Makes the Debian packages of what the build has made, and looks at their control fields and contents.
cmake_minimum_required(VERSION 3.22)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

find_program(dpkg_deb dpkg-deb NO_CACHE)
find_program(dpkg_shlibdeps dpkg-shlibdeps NO_CACHE)
if(NOT dpkg_deb)
  skip("no dpkg-deb")
endif()

run("${cpack}" -G DEB --config "${binary}/CPackConfig.cmake" -B "${scratch}/packages")

# unpack(name architecture depends): unpacks a package to ${scratch}/<name> and checks its control fields, the last by a
# regular expression.
function(unpack name architecture depends)
  set(package "${scratch}/packages/${name}_${version}_${architecture}.deb")
  require_file("${scratch}/packages" "${name}_${version}_${architecture}.deb")
  run("${dpkg_deb}" -f "${package}")
  foreach(line IN ITEMS "Package: ${name}" "Version: ${version}" "Architecture: ${architecture}" "Maintainer: .+"
                        "Description: Entropy-coded quantisation of neural-network weights" "${depends}"
  )
    if(NOT "\n${output}" MATCHES "\n${line}\n")
      message(SEND_ERROR "the control file of ${name} has no line '${line}':\n${output}")
    endif()
  endforeach()
  if(name STREQUAL "libecq-dev" AND output MATCHES "Depends:")
    message(SEND_ERROR "headers depend on nothing:\n${output}")
  endif()
  run("${dpkg_deb}" -c "${package}")
  if(output MATCHES "\n[^\n]*( [.]/usr/local| [.]${source})")
    message(SEND_ERROR "${name} has files in wrong places:\n${output}")
  endif()
  run("${dpkg_deb}" -x "${package}" "${scratch}/${name}")
  run("${CMAKE_COMMAND}" -E compare_files "${source}/LICENSE" "${scratch}/${name}/usr/share/doc/${name}/copyright")
endfunction()

run(dpkg --print-architecture)
string(STRIP "${output}" machine)

unpack(libecq-dev all "Section: libdevel")
require_file("${scratch}/libecq-dev/usr" include/ecq/ecq.hpp include/ecq/ecq.cuh share/cmake/ecq/ecqConfig.cmake)
file(GLOB_RECURSE made RELATIVE "${scratch}/libecq-dev/usr/include" "${scratch}/libecq-dev/usr/include/*")
file(GLOB_RECURSE expected RELATIVE "${source}/include" "${source}/include/*")
require_equal("what headers the package has" "${made}" "${expected}")

if(with_compiled)
  unpack(libecq-compiled-dev ${machine} "Depends: libecq-dev \\(= ${version}\\)")
  require_file("${scratch}/libecq-compiled-dev/usr" lib/libecq_compiled.a)
  file(COPY "${scratch}/libecq-compiled-dev/usr" DESTINATION "${scratch}/libecq-dev")
  require_version_found("${scratch}/libecq-dev/usr" compiled)
endif()

if(with_tool)
  set(depends "Section: utils")
  if(dpkg_shlibdeps)
    set(depends "Depends: [^\n]*libc6 \\(>= [^\n]*libstdc\\+\\+6 \\(>= [^\n]*")
  endif()
  unpack(ecq ${machine} "${depends}")
  run("${scratch}/ecq/usr/bin/ecq" --version)
  require_equal("the tool's version" "${output}" "ecq ${version}\n")
  require_file("${scratch}/ecq/usr/share/doc/ecq/tool" LICENSE THIRD_PARTY_NOTICES)
endif()
