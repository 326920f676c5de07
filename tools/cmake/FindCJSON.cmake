# SPDX-License-Identifier: Apache-2.0
# cJSON, shared or static, included as <cjson/cJSON.h>.
#
#   cJSON::cJSON   imported target

find_path(CJSON_INCLUDE_DIR cjson/cJSON.h)
find_library(CJSON_LIBRARY cjson)
mark_as_advanced(CJSON_INCLUDE_DIR CJSON_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CJSON
  REQUIRED_VARS CJSON_LIBRARY CJSON_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "(Debian package libcjson-dev, tools/setup installs it)")

if(CJSON_FOUND AND NOT TARGET cJSON::cJSON)
  add_library(cJSON::cJSON UNKNOWN IMPORTED)
  set_target_properties(cJSON::cJSON PROPERTIES
    IMPORTED_LOCATION ${CJSON_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${CJSON_INCLUDE_DIR})
endif()
