/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/secure_memory.h - a fixed buffer for the TLS library on a board
 *
 * For builds of Mbed TLS with MBEDTLS_PLATFORM_MEMORY and content lengths that are the same in both
 * directions. Call init before the first secure channel. All sessions of the program share one pair
 * of record buffers; each session takes about 1 kB more. When the buffer is full, a handshake fails
 * as if the peer had not answered, and is retried; established sessions allocate no more.
 *
 * Blocking   never          Context  main loop
 */
#ifndef UWASA_SECURE_MEMORY_H
#define UWASA_SECURE_MEMORY_H

#include "uwasa/cplusplus.h"

#include <stddef.h>

UW_C_BEGIN

/* Set the buffer, aligned as from an arena, for the life of the program. */
void uw_secure_memory_init(void *at, size_t bytes);

/* Highest offset in the buffer that was in use so far. */
size_t uw_secure_memory_peak_bytes(void);

UW_C_END
#endif
