# SPDX-License-Identifier: Apache-2.0
# cmocka, which the tests use: the system's, or if it has none, built from the sources that
# `tools/get-sources cmocka` fetches.
#
#   Cmocka::cmocka   target

find_path(CMOCKA_INCLUDE_DIR cmocka.h)
find_library(CMOCKA_LIBRARY cmocka)
get_filename_component(Cmocka_root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
set(CMOCKA_SOURCE_DIR ${Cmocka_root}/.cache/src/cmocka CACHE PATH "Sources of cmocka")
mark_as_advanced(CMOCKA_INCLUDE_DIR CMOCKA_LIBRARY CMOCKA_SOURCE_DIR)

set(Cmocka_wanted CMOCKA_LIBRARY CMOCKA_INCLUDE_DIR)
if(NOT CMOCKA_LIBRARY AND EXISTS ${CMOCKA_SOURCE_DIR}/src/cmocka.c)
  set(Cmocka_wanted CMOCKA_SOURCE_DIR)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cmocka
  REQUIRED_VARS ${Cmocka_wanted}
  FAIL_MESSAGE "No cmocka, the tests are not built: install it (Debian package libcmocka-dev) or run \
tools/get-sources cmocka")

if(Cmocka_FOUND AND NOT TARGET Cmocka::cmocka)
  if(CMOCKA_LIBRARY)
    add_library(Cmocka::cmocka UNKNOWN IMPORTED)
    set_target_properties(Cmocka::cmocka PROPERTIES
      IMPORTED_LOCATION ${CMOCKA_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${CMOCKA_INCLUDE_DIR})
  else()
    add_library(cmocka_source STATIC EXCLUDE_FROM_ALL ${CMOCKA_SOURCE_DIR}/src/cmocka.c)
    target_include_directories(cmocka_source SYSTEM PUBLIC ${CMOCKA_SOURCE_DIR}/include)
    target_compile_definitions(cmocka_source PRIVATE    # what its own build detects on Unix
      HAVE_SIGNAL_H HAVE_STRINGS_H HAVE_STRSIGNAL HAVE_SIGLONGJMP HAVE_GCC_THREAD_LOCAL_STORAGE)
    add_library(Cmocka::cmocka ALIAS cmocka_source)
  endif()
endif()
