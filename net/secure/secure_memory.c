/* SPDX-License-Identifier: Apache-2.0
 *
 * First fit over one buffer, and one pair of record buffers for all sessions. Mbed TLS allocates
 * two buffers of a record's size, 2.5 kB, for each session, but uses them within a call only: a
 * record is received or sent completely before the call returns (secure_mbedtls.c feeds one at a
 * time, and its output never blocks). Between calls their content is not needed; sequence numbers,
 * flights and messages out of order are elsewhere. */
#include "uwasa/secure_memory.h"

#include <mbedtls/platform.h>
#include <mbedtls/ssl.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Larger requests are these two only: without curves and certificates, all others are at most a
 * handshake message. */
#define RECORD_BYTES MBEDTLS_SSL_IN_CONTENT_LEN
_Static_assert(MBEDTLS_SSL_OUT_CONTENT_LEN == MBEDTLS_SSL_IN_CONTENT_LEN &&
                   MBEDTLS_SSL_DTLS_MAX_BUFFERING <= MBEDTLS_SSL_IN_CONTENT_LEN,
               "what waits for its turn must not be taken for a record buffer");
#if defined(MBEDTLS_ECP_C) || defined(MBEDTLS_X509_CRT_PARSE_C)
#error "the tables of curves and the texts of certificates are larger than a record"
#endif

/* Consecutive blocks; a search joins free ones with those behind them. */
struct block {
    uint32_t bytes;                     /* with this head, a multiple of its size */
    uint32_t used;
};

static struct {
    struct block *first;
    const uint8_t *end;
    size_t peak_bytes;
    void *record[2];
    uint32_t records_n;
} memory;

static struct block *after(struct block *b)
{
    return (struct block *)(void *)((uint8_t *)b + b->bytes);
}

static bool is_end(const struct block *b)
{
    return (const uint8_t *)b >= memory.end;
}

static void *allocate(size_t bytes)
{
    uint32_t need = (uint32_t)((bytes + 2u * sizeof(struct block) - 1u) / sizeof(struct block) *
                               sizeof(struct block));
    for (struct block *b = memory.first; !is_end(b); b = after(b)) {
        while (b->used == 0 && !is_end(after(b)) && after(b)->used == 0) {
            b->bytes += after(b)->bytes;
        }
        if (b->used != 0 || b->bytes < need) {
            continue;
        }
        if (b->bytes > need) {
            uint32_t rest = b->bytes - need;
            b->bytes = need;
            *after(b) = (struct block){.bytes = rest};
        }
        b->used = 1;
        size_t peak = (size_t)((const uint8_t *)after(b) - (const uint8_t *)memory.first);
        memory.peak_bytes = peak > memory.peak_bytes ? peak : memory.peak_bytes;
        return b + 1;
    }
    return NULL;
}

/* Sessions ask for one to read and one to write, in turn. */
static void *allocate_record(size_t bytes)
{
    void **record = &memory.record[memory.records_n++ % 2u];
    if (*record == NULL) {
        *record = allocate(bytes);
    }
    const struct block *b = *record;
    return b != NULL && b[-1].bytes - sizeof *b >= bytes ? *record : NULL;
}

static void *allocate_zeroed(size_t n, size_t size)
{
    size_t all = memory.first != NULL ? (size_t)(memory.end - (const uint8_t *)memory.first) : 0;
    if (n == 0 || size == 0 || size > all / n) {
        return NULL;
    }
    size_t bytes = n * size;
    void *p = bytes > RECORD_BYTES ? allocate_record(bytes) : allocate(bytes);
    return p != NULL ? memset(p, 0, bytes) : NULL;
}

static void release(void *p)
{
    if (p != NULL && p != memory.record[0] && p != memory.record[1]) {
        ((struct block *)p - 1)->used = 0;
    }
}

void uw_secure_memory_init(void *at, size_t bytes)
{
    memset(&memory, 0, sizeof memory);
    bytes = bytes / sizeof(struct block) * sizeof(struct block);
    memory.first = at;
    memory.end = (const uint8_t *)at + bytes;
    if (bytes != 0) {
        *memory.first = (struct block){.bytes = (uint32_t)bytes};
    }
    (void)mbedtls_platform_set_calloc_free(allocate_zeroed, release);
}

size_t uw_secure_memory_peak_bytes(void)
{
    return memory.peak_bytes;
}
