# Settings for this project's own sources, which never reach users of the library.

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

# Optimisation of code that needs no speed: command lines, except for the baselines that the tool computes, and most
# tests, which take half the time to compile so. The library is fully optimised.
set(ECQ_PLAIN_OPTIMIZATION -Og CACHE STRING "Optimisation of command lines")
set(ECQ_TEST_OPTIMIZATION -O0 CACHE STRING "Optimisation of tests that do not run long")

option(ECQ_USE_CCACHE "Compile by ccache, where it is installed (presets: ON)" OFF)
if(ECQ_USE_CCACHE)
  find_program(CCACHE_PROGRAM ccache)
endif()
if(ECQ_USE_CCACHE AND CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the sloppiness, ccache would find nothing again that uses a precompiled header; with the folder, it finds
  # what another checkout has compiled. Depend mode compares the included files themselves. Preprocessed text would hide
  # a changed macro that a precompiled header defines but does not use, and a header with the old macro would be taken.
  # Depend mode also preprocesses nothing only to look it up.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
      "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" "${CCACHE_PROGRAM}"
  )
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()

# ecq_precompile(target header...): compiles headers once for all files of a target.
# ecq_precompile(target REUSE_FROM other): uses the headers that `other`, with the same options, has compiled.
function(ecq_precompile target)
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
  # ccache needs these to see through precompiled headers.
  target_compile_options(
    ${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess> "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>"
  )
endfunction()

add_library(ecq_warnings INTERFACE)
target_compile_options(ecq_warnings INTERFACE -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow)
# GCC 12 warns of overlaps within std::string's own operator+ (GCC bug 105651).
target_compile_options(
  ecq_warnings
  INTERFACE $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
)
# Warnings for .cu files, whose host compiler sees the output of nvcc.
add_library(ecq_cuda_warnings INTERFACE)
option(ECQ_CUDA_REPORT "Compile ecq::compiled_cuda for every supported architecture, and let ptxas speak of each kernel" OFF)
# Options for targets that launch kernels, for builds without a device to launch them on.
set(ECQ_CUDA_PLAIN_OPTIONS "" CACHE STRING "Further options of nvcc for tests, benchmark and examples")
add_library(ecq_cuda_plain INTERFACE)
target_compile_options(ecq_cuda_plain INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${ECQ_CUDA_PLAIN_OPTIONS}>")
target_link_libraries(ecq_cuda_plain INTERFACE ecq_cuda_warnings)
target_compile_options(ecq_cuda_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
if(ECQ_WARNINGS_AS_ERRORS)
  target_compile_options(ecq_warnings INTERFACE -Werror)
  target_compile_options(ecq_cuda_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings>")
endif()

option(ECQ_UNITY_BUILD "Compile the library in few pieces: less to do in all, more after a change" OFF)

# ecq_compile_together(target): compiles eight of its sources at a time. Sources with options of their own stay alone.
function(ecq_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# ecq_require(target debian_package switch): stops the configuration if a dependency is missing, and says what helps.
function(ecq_require target debian_package switch)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "${target} was not found. Install it (Debian: apt-get install ${debian_package}; ./dev does "
                        "so) or configure with -D${switch}=OFF.")
  endif()
endfunction()
