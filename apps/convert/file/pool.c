/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 65536u

struct uw_pool_block {
    struct uw_pool_block *next;
    size_t used, cap;
    alignas(max_align_t) unsigned char data[];
};

void *uw_pool_take(struct uw_pool *p, uint64_t n, size_t element_bytes)
{
    const size_t align = alignof(max_align_t);
    struct uw_pool_block *b = p->blocks;

    if (n > (SIZE_MAX / 4) / element_bytes) {
        return NULL;
    }
    size_t bytes = ((size_t)n * element_bytes + align - 1) / align * align;
    if (b == NULL || bytes > b->cap - b->used) {
        size_t cap = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
        struct uw_pool_block *fresh = calloc(1, sizeof *fresh + cap);
        if (fresh == NULL) {
            return NULL;
        }
        fresh->cap = cap;
        if (cap == bytes && b != NULL) { /* the new block is full: continue to fill the current */
            fresh->next = b->next;
            b->next = fresh;
        } else {
            fresh->next = b;
            p->blocks = fresh;
        }
        b = fresh;
    }
    void *out = b->data + b->used;
    b->used += bytes;
    return out;
}

char *uw_pool_text(struct uw_pool *p, const void *text, size_t bytes)
{
    char *out = uw_pool_take(p, (uint64_t)bytes + 1, 1);
    if (out != NULL && bytes > 0) {
        memcpy(out, text, bytes);
    }
    return out;
}

char *uw_pool_format(struct uw_pool *p, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return uw_pool_text(p, text, strlen(text));
}

void *uw_pool_grow(struct uw_pool *p, void *array, uint32_t n, uint32_t *cap,
                   size_t element_bytes)
{
    if (n < *cap) {
        return array;
    }
    if (*cap > UINT32_MAX / 2) {
        return NULL;
    }
    uint32_t more = *cap == 0 ? 8 : *cap * 2;
    void *fresh = uw_pool_take(p, more, element_bytes);
    if (fresh != NULL) {
        if (n > 0) {
            memcpy(fresh, array, (size_t)n * element_bytes);
        }
        *cap = more;
    }
    return fresh;
}

void uw_pool_deinit(struct uw_pool *p)
{
    while (p->blocks != NULL) {
        struct uw_pool_block *next = p->blocks->next;
        free(p->blocks);
        p->blocks = next;
    }
}
