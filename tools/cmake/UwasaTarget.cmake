# SPDX-License-Identifier: Apache-2.0
# What all targets of this project share: language level, warnings, sanitizers, installation.

set(UWASA_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wvla -Wmissing-prototypes -Wundef)

# -ffp-contract=off: results must have the same bits on targets with and without fused multiply-add.
# Kernels that use it call fma functions or intrinsics.
function(uwasa_compile_options target)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON
                                             C_EXTENSIONS OFF)
  # Not on boards, where it would turn every constant table into a variable.
  if(NOT CMAKE_SYSTEM_NAME STREQUAL "Generic")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  # For 32-bit Linux: files over 2 GiB, and times after the year 2038.
  target_compile_definitions(${target} PRIVATE _FILE_OFFSET_BITS=64 _TIME_BITS=64)
  target_compile_options(${target} PRIVATE ${UWASA_WARNINGS} -ffp-contract=off
                                           $<$<BOOL:${UWASA_WERROR}>:-Werror>)
  if(UWASA_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${UWASA_SANITIZE}
                                             -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
    target_link_options(${target} PUBLIC -fsanitize=${UWASA_SANITIZE})
  endif()
endfunction()

# uwasa_link_time(<target>): link-time optimisation on boards. The objects also have machine code,
# for links with -fno-lto, and for nm and size.
function(uwasa_link_time target)
  if(UWASA_LTO AND CMAKE_SYSTEM_NAME STREQUAL "Generic" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -flto -ffat-lto-objects -ffp-contract=off)
    target_link_options(${target} PUBLIC -flto-partition=one -ffp-contract=off
                        -fno-function-sections)
  endif()
endfunction()

# uwasa_library(<part> SOURCES ... [LINKS public...] [PRIVATE_LINKS ...] [POSIX])
# Static library uwasa_<part>, alias uwasa::<part>. Its public headers are in include/, private ones
# next to the sources. POSIX: it may call the operating system (feature test macros).
function(uwasa_library part)
  cmake_parse_arguments(arg "POSIX" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  set(target uwasa_${part})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(uwasa::${part} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${part})
  set_property(GLOBAL APPEND PROPERTY UWASA_LIBRARIES ${part})
  uwasa_compile_options(${target})
  uwasa_link_time(${target})
  if(arg_POSIX)
    target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE)
  endif()
  target_include_directories(${target}
    PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PUBLIC ${arg_LINKS} PRIVATE ${arg_PRIVATE_LINKS})
  if(UWASA_SOURCES_FOUND)
    return()
  endif()
  install(TARGETS ${target} EXPORT uwasa ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/include)
    install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endif()
endfunction()

# uwasa_test(<subject> <label> SOURCES ... [LINKS ...] [ARGS ...] [TIMEOUT seconds])
# A cmocka program test_<subject>, registered with CTest as <label>/<subject>. A test that links
# threads, or a library that starts threads, also gets the label "threads", which selects the tests
# for the thread sanitizer.
function(uwasa_test subject label)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LINKS;ARGS" ${ARGN})
  set(target test_${subject})
  add_executable(${target} ${arg_SOURCES})
  uwasa_compile_options(${target})
  target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE)
  # Rows of test case tables leave out members at the end that are 0.
  target_compile_options(${target} PRIVATE -Wno-missing-field-initializers)
  target_include_directories(${target} PRIVATE ${uwasa_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE ${arg_LINKS} Cmocka::cmocka m)
  add_test(NAME ${label}/${subject} COMMAND ${target} ${arg_ARGS})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(UWASA_SANITIZE OR CMAKE_CROSSCOMPILING)      # several times as slow, on a busy machine
    math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
  endif()
  set(labels ${label})
  if("${arg_LINKS}" MATCHES "uwasa::(net_posix|board)|Threads::Threads")
    list(APPEND labels threads)
  endif()
  set_tests_properties(${label}/${subject} PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT})
endfunction()
