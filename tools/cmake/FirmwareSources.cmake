# SPDX-License-Identifier: Apache-2.0
# Libraries that boards without an operating system build from sources (tools/get-sources):
#
#   uwasa_source_lwip     uwasa_source_mbedtls     uwasa_source_nanopb
#   uwasa_source_ccm      the part of Mbed TLS that secure frames need
#
# Each is a static library with the port's configuration, built only if something links it.
# UWASA_SOURCES is the folder of the sources; UWASA_SOURCES_FOUND is ON if all of them are there.

get_filename_component(uwasa_root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
set(UWASA_SOURCES ${uwasa_root}/.cache/src CACHE PATH "Sources of lwIP, Mbed TLS and nanopb")
set(UWASA_SOURCES_FOUND ON)
foreach(part lwip mbedtls nanopb)
  if(NOT EXISTS ${UWASA_SOURCES}/${part})
    set(UWASA_SOURCES_FOUND OFF)
  endif()
endforeach()
if(NOT UWASA_SOURCES_FOUND OR TARGET uwasa_source_lwip)
  return()
endif()

set(uwasa_port ${uwasa_root}/boards/cortex_m)

set(lwip ${UWASA_SOURCES}/lwip/src)
add_library(uwasa_source_lwip STATIC EXCLUDE_FROM_ALL
  ${lwip}/core/def.c ${lwip}/core/inet_chksum.c ${lwip}/core/init.c ${lwip}/core/ip.c
  ${lwip}/core/mem.c ${lwip}/core/memp.c ${lwip}/core/netif.c ${lwip}/core/pbuf.c
  ${lwip}/core/stats.c ${lwip}/core/sys.c ${lwip}/core/timeouts.c ${lwip}/core/udp.c
  ${lwip}/core/ipv4/etharp.c ${lwip}/core/ipv4/icmp.c ${lwip}/core/ipv4/ip4.c
  ${lwip}/core/ipv4/ip4_addr.c ${lwip}/netif/ethernet.c)
target_include_directories(uwasa_source_lwip SYSTEM PUBLIC ${lwip}/include ${uwasa_port}/lwip)
# Its checksum reads headers as words that were written as half-words.
target_compile_options(uwasa_source_lwip PRIVATE -fno-strict-aliasing)

option(UWASA_SECURE_FRAMES
       "Boards without an operating system: AES-CCM, for secure frames beside DTLS" OFF)

set(tls ${UWASA_SOURCES}/mbedtls)
set(ccm_sources aes ccm cipher cipher_wrap constant_time hkdf md platform platform_util sha256)
# cipher_wrap.c refers to these, though secure frames do not use them.
list(APPEND ccm_sources chacha20 chachapoly poly1305)
list(TRANSFORM ccm_sources REPLACE "(.+)" "${tls}/library/\\1.c")
set(tls_sources chacha20 chachapoly cipher cipher_wrap constant_time hmac_drbg md
                platform platform_util poly1305 sha256 ssl_ciphersuites ssl_msg ssl_tls)
if(EXISTS ${tls}/library/ssl_tls12_client.c)
  list(APPEND tls_sources ssl_client ssl_debug_helpers_generated ssl_tls12_client ssl_tls12_server)
  set(tls_define "")
else()
  list(APPEND tls_sources ssl_cli ssl_srv)
  set(tls_define UWASA_MBEDTLS_2)
endif()
if(UWASA_SECURE_FRAMES)
  list(APPEND tls_sources aes ccm hkdf)
  list(APPEND tls_define UWASA_SECURE_FRAMES)
endif()
list(TRANSFORM tls_sources REPLACE "(.+)" "${tls}/library/\\1.c")
add_library(uwasa_source_mbedtls STATIC EXCLUDE_FROM_ALL ${tls_sources})
add_library(uwasa_source_ccm STATIC EXCLUDE_FROM_ALL ${ccm_sources})
foreach(part mbedtls ccm)
  target_include_directories(uwasa_source_${part} SYSTEM PUBLIC ${tls}/include
                             PRIVATE ${tls}/library)
  target_compile_definitions(uwasa_source_${part} PUBLIC
    MBEDTLS_CONFIG_FILE="${uwasa_port}/mbedtls_config.h" ${tls_define})
endforeach()
target_compile_definitions(uwasa_source_ccm PUBLIC UWASA_SECURE_FRAMES)

set(pb ${UWASA_SOURCES}/nanopb)
add_library(uwasa_source_nanopb STATIC EXCLUDE_FROM_ALL ${pb}/pb_common.c ${pb}/pb_decode.c ${pb}/pb_encode.c)
target_include_directories(uwasa_source_nanopb SYSTEM PUBLIC ${pb})
target_compile_definitions(uwasa_source_nanopb PUBLIC PB_NO_ERRMSG PB_BUFFER_ONLY)
target_compile_options(uwasa_source_nanopb PRIVATE ${UWASA_SMALLER_FLAGS})
foreach(part lwip mbedtls ccm nanopb)
  uwasa_link_time(uwasa_source_${part})
endforeach()
