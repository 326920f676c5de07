# SPDX-License-Identifier: Apache-2.0
# Mbed TLS 2.28 and 3.x. If the package has a CMake config, as 3.x does, that is used. Debian's 2.28
# has none, so its headers and libraries are searched for.
#
#   MbedTLS::mbedtls  MbedTLS::mbedx509  MbedTLS::mbedcrypto     imported targets
#   MbedTLS_VERSION                                              "2.28.3"

find_package(MbedTLS CONFIG QUIET)
if(TARGET MbedTLS::mbedtls)
  set(MbedTLS_FOUND TRUE)
  return()
endif()

find_path(MbedTLS_INCLUDE_DIR mbedtls/ssl.h)
find_library(MbedTLS_TLS_LIBRARY mbedtls)
find_library(MbedTLS_X509_LIBRARY mbedx509)
find_library(MbedTLS_CRYPTO_LIBRARY mbedcrypto)
mark_as_advanced(MbedTLS_INCLUDE_DIR MbedTLS_TLS_LIBRARY MbedTLS_X509_LIBRARY
                 MbedTLS_CRYPTO_LIBRARY)

# The version is in version.h in 2.28, and in build_info.h in 3.x.
foreach(header build_info.h version.h)
  set(path ${MbedTLS_INCLUDE_DIR}/mbedtls/${header})
  if(MbedTLS_INCLUDE_DIR AND NOT MbedTLS_VERSION AND EXISTS ${path})
    file(STRINGS ${path} line REGEX "define MBEDTLS_VERSION_STRING +\"")
    string(REGEX REPLACE ".*\"([0-9.]+)\".*" "\\1" MbedTLS_VERSION "${line}")
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MbedTLS
  REQUIRED_VARS MbedTLS_TLS_LIBRARY MbedTLS_X509_LIBRARY MbedTLS_CRYPTO_LIBRARY
                MbedTLS_INCLUDE_DIR
  VERSION_VAR MbedTLS_VERSION
  REASON_FAILURE_MESSAGE "(Debian package libmbedtls-dev, tools/setup installs it)")

if(MbedTLS_FOUND)
  foreach(part mbedcrypto:CRYPTO: mbedx509:X509:mbedcrypto mbedtls:TLS:mbedx509)
    string(REPLACE ":" ";" part ${part})
    list(GET part 0 name)
    list(GET part 1 variable)
    list(GET part 2 below)
    add_library(MbedTLS::${name} UNKNOWN IMPORTED)
    set_target_properties(MbedTLS::${name} PROPERTIES
      IMPORTED_LOCATION ${MbedTLS_${variable}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${MbedTLS_INCLUDE_DIR})
    if(below)
      set_target_properties(MbedTLS::${name} PROPERTIES INTERFACE_LINK_LIBRARIES MbedTLS::${below})
    endif()
  endforeach()
endif()
