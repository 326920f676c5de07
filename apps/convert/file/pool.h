/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.h - memory that is freed all at once (private)
 *
 * Memory     heap      Blocking  never      Context  one thread per pool
 */
#ifndef UWASA_CONVERT_POOL_H
#define UWASA_CONVERT_POOL_H

#include <stddef.h>
#include <stdint.h>

struct uw_pool_block;

struct uw_pool {
    struct uw_pool_block *blocks;
};

/* Allocate n zeroed elements, aligned for any type; NULL: out of memory, or the size overflows. */
void *uw_pool_take(struct uw_pool *p, uint64_t n, size_t element_bytes);

/* A NUL-terminated copy, or NULL. */
char *uw_pool_text(struct uw_pool *p, const void *text, size_t bytes);

/* printf into the pool, truncated at 511 bytes; NULL: out of memory. */
char *uw_pool_format(struct uw_pool *p, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Make room for one more element in an array of n. Returns the array, or NULL. If it was full it
 * is moved and *cap updated. */
void *uw_pool_grow(struct uw_pool *p, void *array, uint32_t n, uint32_t *cap,
                   size_t element_bytes);

/* Release every block; safe on a zeroed pool and twice. */
void uw_pool_deinit(struct uw_pool *p);

#endif
