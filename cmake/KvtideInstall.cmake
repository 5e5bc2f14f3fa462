# Install and export, so that another project can say find_package(kvtide) and link kvtide::engine, kvtide::kv, ...
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
get_property(rooms GLOBAL PROPERTY KVTIDE_ROOMS)
install(TARGETS ${rooms} EXPORT kvtideTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(TARGETS kvtide RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(DIRECTORY sim/ DESTINATION include/kvtide COMPONENT development FILES_MATCHING PATTERN "*.h"
  PATTERN testing EXCLUDE PATTERN hand_made_heads.h EXCLUDE)
# base/data_directory.cc looks here, seen from the running program.
install(DIRECTORY models hw_profiles experiments DESTINATION share/kvtide COMPONENT program)
install(DIRECTORY analysis/kvtide_analysis DESTINATION share/kvtide/analysis COMPONENT program
  PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE CHANGELOG.md DESTINATION share/doc/kvtide COMPONENT program)
install(EXPORT kvtideTargets NAMESPACE kvtide:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvtide COMPONENT development)
configure_package_config_file(cmake/kvtideConfig.cmake.in kvtideConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvtide)
write_basic_package_version_file(kvtideConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/kvtideConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/kvtideConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvtide COMPONENT development)
