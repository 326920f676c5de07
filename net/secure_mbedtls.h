/* SPDX-License-Identifier: Apache-2.0
 *
 * secure_mbedtls.h - Mbed TLS, 2.28 and 3.x, as the files that wrap it see it
 *
 * secure_mbedtls.c has what sessions share and those over datagrams, secure_mbedtls_stream.c those
 * over streams. */
#ifndef UW_NET_SECURE_MBEDTLS_H
#define UW_NET_SECURE_MBEDTLS_H

#include "secure_tls.h"

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/ssl.h>
#include <mbedtls/version.h>

#define UW_TLS_SUITES_MAX 8u
#define UW_TLS_ALERT_UNKNOWN_PSK_IDENTITY 115
#define UW_TLS_ALERT_BAD_RECORD_MAC 20
#define UW_TLS_ALERT_DECRYPT_ERROR 51

struct uw_tls_engine {
    mbedtls_ssl_config conf[2];     /* server, client */
    mbedtls_ctr_drbg_context drbg;
    mbedtls_entropy_context system_entropy;
    int suites[UW_TLS_SUITES_MAX + 1];
    uint8_t cookie_key[32];
    int (*entropy)(void *user, uint8_t *out, size_t bytes);
    void *user;
    bool ready;
};

/* Is the handshake of a session done? */
static inline bool uw_tls_handshake_over(const mbedtls_ssl_context *ssl)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
    return mbedtls_ssl_is_handshake_over((mbedtls_ssl_context *)(uintptr_t)ssl) != 0;
#else
    return ssl->state == MBEDTLS_SSL_HANDSHAKE_OVER;
#endif
}

#endif
