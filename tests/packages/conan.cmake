# Makes the Conan package, and builds and runs its test package, without a remote and in a home of its own.
cmake_minimum_required(VERSION 3.22)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

# The environment's, the one that ./dev test has installed, or any.
find_program(conan NAMES $ENV{CONAN} conan HINTS "${source}/build/venv/bin" NO_CACHE)
if(NOT conan)
  skip("no Conan client (pip install conan, or set CONAN)")
endif()
run("${conan}" --version)
if(NOT output MATCHES "[Vv]ersion 2[.]")
  skip("${conan} is not version 2: ${output}")
endif()

set(ENV{CONAN_HOME} "${scratch}/home")
set(ENV{CXX} "${compiler}")
run("${conan}" profile detect)
run("${conan}" create "${source}" --no-remote -s build_type=Debug
    -c "tools.cmake.cmake_layout:test_folder=${scratch}/test"
)
if(NOT output MATCHES "ecq ${version}: [0-9.]+ bits per weight")
  message(SEND_ERROR "the test package did not print its line\n${output}")
endif()
string(REGEX MATCH "Package folder ([^\n]+)" ignored "${output}")
set(package "${CMAKE_MATCH_1}")
require_file("${package}" include/ecq/ecq.hpp licenses/LICENSE share/cmake/ecq/ecqConfig.cmake)
foreach(folder IN ITEMS lib bin)
  if(EXISTS "${package}/${folder}")
    message(SEND_ERROR "a package of headers has ${package}/${folder}")
  endif()
endforeach()

# What else the options need, as if the system had it.
file(READ "${scratch}/home/profiles/default" profile)
file(WRITE "${scratch}/profile" "${profile}\n[platform_requires]\ncli11/2.1.2\nnlohmann_json/3.11.2\n")
run("${conan}" graph info "${source}" --no-remote -pr "${scratch}/profile" -o "&:tool=True" -o "&:compiled=True")
foreach(line IN ITEMS "package_type: static-library" "cli11/2.1.2 - Platform" "nlohmann_json/3.11.2 - Platform")
  if(NOT output MATCHES "${line}")
    message(SEND_ERROR "the graph of the options has no '${line}'\n${output}")
  endif()
endforeach()
