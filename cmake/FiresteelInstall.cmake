# What `cmake --install` lays down, alike in a plain prefix and in the wheel (whose prefix is the package folder):
#   include/firesteel/*.h   lib/libfiresteel.so   lib/cmake/Firesteel/*.cmake
# and, in the wheel only, the extension module in the package folder itself.
include(CMakePackageConfigHelpers)
set(FIRESTEEL_CMAKE_DIR lib/cmake/Firesteel)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" FIRESTEEL_TORCH_SERIES ${FIRESTEEL_TORCH_VERSION})

# The wheel lies beside torch; a plain prefix remembers the torch it was built with.
if(SKBUILD)
  set_target_properties(firesteel PROPERTIES INSTALL_RPATH "$ORIGIN/../../torch/lib")
else()
  set_target_properties(firesteel PROPERTIES INSTALL_RPATH "${FIRESTEEL_TORCH_ROOT}/lib")
endif()

install(TARGETS firesteel EXPORT FiresteelTargets LIBRARY DESTINATION lib COMPONENT library)
install(DIRECTORY include/firesteel DESTINATION include COMPONENT library FILES_MATCHING PATTERN "*.h")
install(EXPORT FiresteelTargets NAMESPACE Firesteel:: DESTINATION ${FIRESTEEL_CMAKE_DIR} COMPONENT library)

configure_package_config_file(cmake/FiresteelConfig.cmake.in ${CMAKE_BINARY_DIR}/${FIRESTEEL_CMAKE_DIR}/FiresteelConfig.cmake
                              INSTALL_DESTINATION ${FIRESTEEL_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/${FIRESTEEL_CMAKE_DIR}/FiresteelConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
configure_file(cmake/FiresteelTorch.cmake ${CMAKE_BINARY_DIR}/${FIRESTEEL_CMAKE_DIR}/FiresteelTorch.cmake COPYONLY)
install(FILES ${CMAKE_BINARY_DIR}/${FIRESTEEL_CMAKE_DIR}/FiresteelConfig.cmake
              ${CMAKE_BINARY_DIR}/${FIRESTEEL_CMAKE_DIR}/FiresteelConfigVersion.cmake
              ${CMAKE_BINARY_DIR}/${FIRESTEEL_CMAKE_DIR}/FiresteelTorch.cmake
        DESTINATION ${FIRESTEEL_CMAKE_DIR} COMPONENT library)

# The build tree is a package too, so that a checkout can be used without installing it.
export(EXPORT FiresteelTargets NAMESPACE Firesteel:: FILE ${CMAKE_BINARY_DIR}/${FIRESTEEL_CMAKE_DIR}/FiresteelTargets.cmake)

if(TARGET _C)
  set_target_properties(_C PROPERTIES INSTALL_RPATH "$ORIGIN/lib;$ORIGIN/../torch/lib")
  install(TARGETS _C LIBRARY DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
endif()
