# Every target of this project is made here, so that warnings, sanitizers and include paths are the same in all.
set(NCCL_CHECK_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
    -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual -Wnull-dereference -Wformat=2 -Werror)

function(nccl_check_configure target)
  target_compile_options(${target} PRIVATE ${NCCL_CHECK_WARNINGS})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/runner)
  target_compile_definitions(${target} PRIVATE NCCL_CHECK_VERSION="${PROJECT_VERSION}")
  if(NCCL_CHECK_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${NCCL_CHECK_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${NCCL_CHECK_SANITIZE})
    # GCC's instrumentation makes these report paths that cannot be taken; clang does not know the second.
    target_compile_options(${target} PRIVATE -Wno-null-dereference
                                             $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
endfunction()

# nccl_check_add_library(NAME SOURCES a.cpp ... [LINK lib ...])
function(nccl_check_add_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${arg_LINK})
  nccl_check_configure(${name})
endfunction()

# nccl_check_add_program(NAME SOURCES a.cpp ... [LINK lib ...])
function(nccl_check_add_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  nccl_check_configure(${name})
endfunction()

# nccl_check_add_test(NAME SOURCES a_test.cpp ... [LINK lib ...]): a GoogleTest program, each case known to ctest.
function(nccl_check_add_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  nccl_check_add_program(${name} SOURCES ${arg_SOURCES} LINK ${arg_LINK} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE -Wno-sign-conversion)
  gtest_discover_tests(${name} TEST_PREFIX "${name}/" PROPERTIES TIMEOUT 120 DISCOVERY_TIMEOUT 60)
endfunction()
