/* SPDX-License-Identifier: Apache-2.0 */
#include "storage_memory.h"

#include <stdlib.h>
#include <string.h>

static int size_of(struct uw_storage *base, const char *object, uint64_t *bytes)
{
    (void)object;
    *bytes = ((struct uw_storage_memory *)base)->bytes_n;
    return UW_OK;
}

static int read_at(struct uw_storage *base, const char *object, uint64_t offset, void *buf,
                   size_t bytes)
{
    const struct uw_storage_memory *s = (const struct uw_storage_memory *)base;
    (void)object;
    if (offset > s->bytes_n || bytes > s->bytes_n - (size_t)offset) {
        return UW_ERR_CORRUPT;
    }
    memcpy(buf, s->bytes + (size_t)offset, bytes);
    return UW_OK;
}

static int begin(struct uw_storage *base, const char *object)
{
    (void)object;
    ((struct uw_storage_memory *)base)->bytes_n = 0;
    return UW_OK;
}

static int append(struct uw_storage *base, const void *buf, size_t bytes)
{
    struct uw_storage_memory *s = (struct uw_storage_memory *)base;
    if (bytes > s->cap - s->bytes_n) {
        size_t cap = s->cap + s->cap / 2 > s->bytes_n + bytes ? s->cap + s->cap / 2
                                                              : s->bytes_n + bytes;
        unsigned char *grown = realloc(s->bytes, cap);
        if (grown == NULL) {
            return UW_ERR_FULL;
        }
        s->bytes = grown;
        s->cap = cap;
    }
    memcpy(s->bytes + s->bytes_n, buf, bytes);
    s->bytes_n += bytes;
    return UW_OK;
}

static int end(struct uw_storage *base, int commit)
{
    struct uw_storage_memory *s = (struct uw_storage_memory *)base;
    s->bytes_n = commit ? s->bytes_n : 0;
    return UW_OK;
}

static const struct uw_storage_ops ops = {.name = "memory", .size = size_of, .read = read_at,
                                          .begin = begin, .append = append, .end = end};

void uw_storage_memory_init(struct uw_storage_memory *s)
{
    *s = (struct uw_storage_memory){.base = {&ops}};
}

void uw_storage_memory_borrow(struct uw_storage_memory *s, const void *bytes, size_t bytes_n)
{
    *s = (struct uw_storage_memory){.base = {&ops}, .bytes_n = bytes_n};
    s->bytes = (unsigned char *)(uintptr_t)bytes;      /* only read: cap is 0 */
}

void uw_storage_memory_close(struct uw_storage_memory *s)
{
    if (s->cap != 0) {
        free(s->bytes);
    }
    *s = (struct uw_storage_memory){.base = {&ops}};
}
