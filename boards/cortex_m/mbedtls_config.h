/* SPDX-License-Identifier: Apache-2.0
 *
 * Mbed TLS's configuration for the secure channel on a board: DTLS 1.2, pre-shared keys, one cipher
 * suite, memory from one fixed buffer. */
#ifndef UW_MBEDTLS_CONFIG_H
#define UW_MBEDTLS_CONFIG_H

#define MBEDTLS_PLATFORM_C
#define MBEDTLS_PLATFORM_MEMORY
#define MBEDTLS_PLATFORM_NO_STD_FUNCTIONS   /* memory by uwasa/secure_memory.h, and no stdio */
#define MBEDTLS_PLATFORM_EXIT_MACRO(status) __builtin_trap()
#define MBEDTLS_NO_PLATFORM_ENTROPY

/* ChaCha20-Poly1305 is smaller and faster than AES in software. */
#define MBEDTLS_CHACHA20_C
#define MBEDTLS_POLY1305_C
#define MBEDTLS_CHACHAPOLY_C
#define MBEDTLS_CIPHER_C
#define MBEDTLS_MD_C
#define MBEDTLS_SHA256_C
#define MBEDTLS_SHA256_SMALLER
#define MBEDTLS_HMAC_DRBG_C

#ifdef UWASA_SECURE_FRAMES                  /* uwasa/secure_frames.h */
#define MBEDTLS_AES_C
#define MBEDTLS_AES_ROM_TABLES
#define MBEDTLS_AES_FEWER_TABLES            /* saves 6 kB of 8, costs a few cycles per byte */
#define MBEDTLS_CCM_C
#define MBEDTLS_HKDF_C
#endif

#define MBEDTLS_SSL_TLS_C
#define MBEDTLS_SSL_CLI_C
#define MBEDTLS_SSL_SRV_C
#define MBEDTLS_SSL_PROTO_TLS1_2
#define MBEDTLS_SSL_PROTO_DTLS
#define MBEDTLS_SSL_ALL_ALERT_MESSAGES  /* so that a peer with a wrong key gets an alert */
#define MBEDTLS_SSL_DTLS_ANTI_REPLAY
#define MBEDTLS_SSL_DTLS_HELLO_VERIFY
#define MBEDTLS_KEY_EXCHANGE_PSK_ENABLED
#define MBEDTLS_PSK_MAX_LEN 32
#define MBEDTLS_SSL_IN_CONTENT_LEN 1232     /* link_lwip.h's default datagram size */
#define MBEDTLS_SSL_OUT_CONTENT_LEN 1232
#define MBEDTLS_SSL_DTLS_MAX_BUFFERING 1024 /* early handshake messages; with PSK they are small */
#define MBEDTLS_SSL_CIPHERSUITES MBEDTLS_TLS_PSK_WITH_CHACHA20_POLY1305_SHA256

#ifdef UWASA_MBEDTLS_2
#include "mbedtls/check_config.h"
#endif

#endif
