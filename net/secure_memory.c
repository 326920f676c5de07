/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/secure_memory.h"

#include <mbedtls/memory_buffer_alloc.h>

#include <stdint.h>

static const uint8_t *buffer;
static size_t buffer_bytes;

void uw_secure_memory_init(void *memory, size_t bytes)
{
    mbedtls_memory_buffer_alloc_init(memory, bytes);    /* zeroes it */
    buffer = memory;
    buffer_bytes = bytes;
}

/* The allocator takes the first free block that is large enough, so that what was never touched is
 * at the end. */
size_t uw_secure_memory_peak_bytes(void)
{
    size_t n = buffer_bytes;
    while (n > 0 && buffer[n - 1u] == 0) {
        n--;
    }
    return n;
}
