# oneDNN (https://uxlfoundation.github.io/oneDNN, Debian: libdnnl-dev) for products on CPUs. Defines oneDNN::oneDNN. Its
# own CMake package is not used: Debian's ends with an error if the headers of OpenCL are missing, which libdnnl-dev
# only recommends and CPUs do not need.

find_path(oneDNN_INCLUDE_DIR dnnl.hpp DOC "Folder of dnnl.hpp")
find_library(oneDNN_LIBRARY dnnl DOC "oneDNN's library")
mark_as_advanced(oneDNN_INCLUDE_DIR oneDNN_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR)

if(oneDNN_FOUND AND NOT TARGET oneDNN::oneDNN)
  add_library(oneDNN::oneDNN UNKNOWN IMPORTED)
  set_target_properties(oneDNN::oneDNN PROPERTIES IMPORTED_LOCATION "${oneDNN_LIBRARY}"
                                                  INTERFACE_INCLUDE_DIRECTORIES "${oneDNN_INCLUDE_DIR}")
endif()
