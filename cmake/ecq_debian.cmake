# Debian packages, made by `cpack -G DEB` in the build folder: libecq-dev (headers and CMake's files),
# libecq-compiled-dev and libecq-compiled-cuda-dev (the static libraries) and ecq (the tool).

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ecq)
set(CPACK_PACKAGE_VENDOR ecq)
set(CPACK_PACKAGE_CONTACT "The developers of ecq")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_COMPONENTS_ALL "")

# ecq_debian_package(GROUP component name section description): makes a CPack group, and so a package, of a component
# and the licence, which is installed nowhere else.
macro(ecq_debian_package group component name section description)
  install(
    FILES "${PROJECT_SOURCE_DIR}/LICENSE"
    DESTINATION share/doc/${name}
    RENAME copyright
    COMPONENT ${component}_licence
    EXCLUDE_FROM_ALL
  )
  foreach(part IN ITEMS ${component} ${component}_licence)
    list(APPEND CPACK_COMPONENTS_ALL ${part})
    string(TOUPPER ${part} upper)
    set(CPACK_COMPONENT_${upper}_GROUP ${group})
  endforeach()
  set(CPACK_DEBIAN_${group}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${group}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${group}_DESCRIPTION "${description}")
endmacro()

ecq_debian_package(
  HEADERS library libecq-dev libdevel "A C++20 library of headers, and the files by which CMake finds it."
)
set(CPACK_DEBIAN_HEADERS_PACKAGE_ARCHITECTURE all)

if(ECQ_INSTALL_COMPILED)
  ecq_debian_package(
    STATIC compiled libecq-compiled-dev libdevel
    "A static library of the kernels of libecq-dev, for programs that compile fast."
  )
  set(CPACK_DEBIAN_STATIC_PACKAGE_DEPENDS "libecq-dev (= ${PROJECT_VERSION})")
endif()

if(ECQ_INSTALL_COMPILED_CUDA)
  ecq_debian_package(
    DEVICES compiled_cuda libecq-compiled-cuda-dev libdevel
    "A static library of what libecq-dev runs on CUDA devices, for programs that compile fast."
  )
  set(CPACK_DEBIAN_DEVICES_PACKAGE_DEPENDS "libecq-compiled-dev (= ${PROJECT_VERSION})")
endif()

if(TARGET ecq_tool)
  ecq_debian_package(
    PROGRAM tool ecq utils "Compresses, decompresses, inspects and verifies checkpoints of neural networks."
  )
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
endif()

include(CPack)
