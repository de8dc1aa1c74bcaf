# What the tests of packages share: they are scripts, run by `cmake -P`, in a folder of their own.

# run(command...): ends the test if the command fails; `output` is what it printed.
macro(run)
  execute_process(
    COMMAND ${ARGV}
    RESULT_VARIABLE run_failed
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output
  )
  if(run_failed)
    string(REPLACE ";" " " run_command "${ARGV}")
    message(FATAL_ERROR "${run_command}: ${run_failed}\n${output}")
  endif()
endmacro()

# skip(reason): CTest reads this line; the script has to return.
macro(skip reason)
  message(STATUS "skipped: ${reason}")
  return()
endmacro()

# require_equal(what found expected)
function(require_equal what found expected)
  if(NOT "${found}" STREQUAL "${expected}")
    message(SEND_ERROR "${what} is '${found}' instead of '${expected}'")
  endif()
endfunction()

# require_file(folder path...): each is a file or a folder below it.
function(require_file folder)
  foreach(path IN LISTS ARGN)
    if(NOT EXISTS "${folder}/${path}")
      message(SEND_ERROR "${folder} has no ${path}")
    endif()
  endforeach()
endfunction()

# require_version_found(prefix component...): find_package finds ecq and the components there, in this version alone.
function(require_version_found prefix)
  string(REPLACE ";" "\\;" components "${ARGN}")
  run("${CMAKE_COMMAND}" -S "${source}/tests/consumer/versions" -B "${scratch}/versions" -G "${generator}"
      "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_PREFIX_PATH=${prefix}" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
      "-DPACKAGE_VERSION=${version}" "-DPACKAGE_COMPONENTS=${components}"
  )
endfunction()

file(REMOVE_RECURSE "${scratch}")
file(MAKE_DIRECTORY "${scratch}")
