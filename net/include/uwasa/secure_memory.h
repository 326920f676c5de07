/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/secure_memory.h - where the TLS library takes its memory on a board: one fixed buffer
 *
 * For builds of Mbed TLS with MBEDTLS_MEMORY_BUFFER_ALLOC_C. Call init before the first secure
 * channel.
 *
 * Blocking   never          Context  main loop
 */
#ifndef UWASA_SECURE_MEMORY_H
#define UWASA_SECURE_MEMORY_H

#include <stddef.h>

/* Hand over the buffer, for as long as the program runs. */
void uw_secure_memory_init(void *memory, size_t bytes);

/* How far into the buffer something was left so far: at least what was in use at once, but for what
 * the library has wiped since. */
size_t uw_secure_memory_peak_bytes(void);

#endif
