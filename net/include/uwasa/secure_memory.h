/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/secure_memory.h - where the TLS library takes its memory on a board: one fixed buffer
 *
 * For builds of Mbed TLS with MBEDTLS_PLATFORM_MEMORY and content lengths that are the same in both
 * directions. Call init before the first secure channel. All sessions of the program share one
 * pair of record buffers; a session that is up takes about 1 kB beside it. When the buffer is
 * full, a handshake fails as if the peer had not answered, and is tried again; sessions that are
 * up need no more.
 *
 * Blocking   never          Context  main loop
 */
#ifndef UWASA_SECURE_MEMORY_H
#define UWASA_SECURE_MEMORY_H

#include "uwasa/cplusplus.h"

#include <stddef.h>

UW_C_BEGIN

/* Hand over the buffer, aligned as from an arena, for as long as the program runs. */
void uw_secure_memory_init(void *at, size_t bytes);

/* The end of what was in use so far, from the buffer's start. */
size_t uw_secure_memory_peak_bytes(void);

UW_C_END
#endif
