# An overlay port: it builds the checkout that it lies in, so there is nothing to download. vcpkg identifies a package
# only by the files of its port. To install again after a change to the sources, remove it first and pass
# --no-binarycaching.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

vcpkg_check_features(
  OUT_FEATURE_OPTIONS options
  FEATURES
    compiled ECQ_INSTALL_COMPILED
    tool ECQ_BUILD_TOOL
)
if("compiled" IN_LIST FEATURES)
  vcpkg_check_linkage(ONLY_STATIC_LIBRARY)
else()
  set(VCPKG_BUILD_TYPE release) # headers are the same in both
endif()

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DECQ_BUILD_BENCHMARKS=OFF
    -DECQ_BUILD_EXAMPLES=OFF
    -DECQ_BUILD_TESTS=OFF
    -DECQ_INSTALL_CMAKEDIR=share/${PORT}
    ${options}
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup()
set(licences "${SOURCE_PATH}/LICENSE")
if("tool" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES ecq AUTO_CLEAN)
  list(APPEND licences "${SOURCE_PATH}/THIRD_PARTY_NOTICES")
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
     "${CURRENT_PACKAGES_DIR}/share/doc" "${CURRENT_PACKAGES_DIR}/share/pkgconfig"
)

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST ${licences})
