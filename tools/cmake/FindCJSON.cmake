# SPDX-License-Identifier: Apache-2.0
# cJSON, shared or static, included as <cjson/cJSON.h>: the system's, or if it has none (Debian has
# no static one) built from the sources that `tools/get-sources cjson` fetches.
#
#   cJSON::cJSON   target

find_path(CJSON_INCLUDE_DIR cjson/cJSON.h)
find_library(CJSON_LIBRARY cjson)
get_filename_component(CJSON_root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
set(CJSON_SOURCE_DIR ${CJSON_root}/.cache/src/cjson CACHE PATH "Sources of cJSON")
mark_as_advanced(CJSON_INCLUDE_DIR CJSON_LIBRARY CJSON_SOURCE_DIR)

set(CJSON_wanted CJSON_LIBRARY CJSON_INCLUDE_DIR)
if(NOT CJSON_LIBRARY AND EXISTS ${CJSON_SOURCE_DIR}/cJSON.c)
  set(CJSON_wanted CJSON_SOURCE_DIR)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CJSON
  REQUIRED_VARS ${CJSON_wanted}
  FAIL_MESSAGE "No cJSON: install it (Debian package libcjson-dev) or run tools/get-sources cjson")

if(CJSON_FOUND AND NOT TARGET cJSON::cJSON)
  if(CJSON_LIBRARY)
    add_library(cJSON::cJSON UNKNOWN IMPORTED)
    set_target_properties(cJSON::cJSON PROPERTIES
      IMPORTED_LOCATION ${CJSON_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${CJSON_INCLUDE_DIR})
  else()
    add_library(cjson_source STATIC EXCLUDE_FROM_ALL ${CJSON_SOURCE_DIR}/cJSON.c)
    configure_file(${CJSON_SOURCE_DIR}/cJSON.h ${CMAKE_BINARY_DIR}/cjson/include/cjson/cJSON.h
                   COPYONLY)
    target_include_directories(cjson_source SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/cjson/include)
    add_library(cJSON::cJSON ALIAS cjson_source)
  endif()
endif()
