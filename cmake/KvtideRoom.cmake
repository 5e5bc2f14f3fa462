# kvtide_room(NAME [EIGEN] [DEPENDS room...] [PRIVATE library...] [PUBLIC library...])
#
# One static library kvtide::NAME from sim/NAME/**/*.cc and, when tests are on, one executable NAME_test from
# sim/NAME/**/*_test.cc. A room sees only the rooms it names: a wrong include does not link. EIGEN: most of its files use
# Eigen, so its precompiled header holds it.
add_library(kvtide_warnings INTERFACE)
target_compile_options(kvtide_warnings INTERFACE -Wall -Wextra -Wswitch-enum -Wnon-virtual-dtor -Werror=switch-enum
  -Werror=return-type)
if(KVTIDE_SANITIZE)
  add_compile_options(-fsanitize=${KVTIDE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KVTIDE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Its prologue before a split coroutine cannot be assembled ("difference across sections").
    add_compile_options(-fno-sanitize=function)
  endif()
endif()

# Parsing headers is most of a build's time: four precompiled headers serve all rooms and their tests.
set(KVTIDE_COMMON_HEADERS <algorithm> <array> <cmath> <cstdint> <filesystem> <fstream> <functional> <limits> <map> <memory>
  <numeric> <optional> <set> <span> <sstream> <string> <string_view> <utility> <variant> <vector> <fmt/format.h>
  <fmt/ranges.h>)
function(kvtide_precompiled_headers target)
  cmake_parse_arguments(PCH "" "" "LIBRARIES;OPTIONS;HEADERS" ${ARGN})
  set(empty ${CMAKE_CURRENT_BINARY_DIR}/precompiled/${target}.cc)
  if(NOT EXISTS ${empty})
    file(WRITE ${empty} "")
  endif()
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${empty})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE ${PCH_OPTIONS})
  target_link_libraries(${target} PRIVATE kvtide_warnings fmt::fmt ${PCH_LIBRARIES})
  target_precompile_headers(${target} PRIVATE ${KVTIDE_COMMON_HEADERS} ${PCH_HEADERS})
endfunction()
kvtide_precompiled_headers(kvtide_precompiled)
kvtide_precompiled_headers(kvtide_precompiled_eigen LIBRARIES Eigen3::Eigen HEADERS <Eigen/Core>)
# A test's own code runs once: optimising it hard costs more than it saves, except where it multiplies matrices.
set(KVTIDE_TEST_OPTIONS -O1)
if(KVTIDE_BUILD_TESTS)
  kvtide_precompiled_headers(kvtide_precompiled_test LIBRARIES GTest::gtest_main GTest::gmock
    OPTIONS ${KVTIDE_TEST_OPTIONS} HEADERS <gtest/gtest.h> <gmock/gmock.h>)
  kvtide_precompiled_headers(kvtide_precompiled_eigen_test LIBRARIES GTest::gtest_main GTest::gmock Eigen3::Eigen
    HEADERS <gtest/gtest.h> <gmock/gmock.h> <Eigen/Core>)
endif()

# Only the files that ask for a folder get its name: the others compile to the same object wherever the project lies,
# which is what lets a compiler cache serve a second checkout.
function(kvtide_define_folders)
  foreach(source ${ARGN})
    foreach(folder SOURCE BINARY)
      file(STRINGS ${source} uses REGEX "KVTIDE_${folder}_DIR" LIMIT_COUNT 1)
      if(uses)
        set_property(SOURCE ${source} APPEND PROPERTY
          COMPILE_DEFINITIONS KVTIDE_${folder}_DIR="${PROJECT_${folder}_DIR}")
      endif()
    endforeach()
  endforeach()
endfunction()

function(kvtide_room name)
  cmake_parse_arguments(ROOM "EIGEN" "" "DEPENDS;PRIVATE;PUBLIC" ${ARGN})
  set(dir ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench|main)\\.cc$")
  list(TRANSFORM ROOM_DEPENDS PREPEND kvtide_)
  set(precompiled kvtide_precompiled)
  if(ROOM_EIGEN)
    set(precompiled kvtide_precompiled_eigen)
  endif()
  if(sources)
    add_library(kvtide_${name} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(kvtide_${name} PRIVATE $<BUILD_INTERFACE:kvtide_warnings>)
    target_precompile_headers(kvtide_${name} REUSE_FROM ${precompiled})
  else()
    add_library(kvtide_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(kvtide::${name} ALIAS kvtide_${name})
  set_target_properties(kvtide_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(kvtide_${name} ${scope} cxx_std_20)
  target_include_directories(kvtide_${name} ${scope}
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/kvtide>)
  target_link_libraries(kvtide_${name} ${scope} ${ROOM_DEPENDS} ${ROOM_PUBLIC})
  if(ROOM_PRIVATE AND scope STREQUAL PUBLIC)
    target_link_libraries(kvtide_${name} PRIVATE ${ROOM_PRIVATE})
  endif()
  set_property(GLOBAL APPEND PROPERTY KVTIDE_ROOMS kvtide_${name})
  if(tests AND KVTIDE_BUILD_TESTS)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE kvtide_${name} kvtide_warnings GTest::gtest_main GTest::gmock
      ${ROOM_PRIVATE})
    kvtide_define_folders(${tests})
    target_precompile_headers(${name}_test REUSE_FROM ${precompiled}_test)
    if(NOT ROOM_EIGEN)
      target_compile_options(${name}_test PRIVATE ${KVTIDE_TEST_OPTIONS})
    endif()
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()
endfunction()
