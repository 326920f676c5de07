/* SPDX-License-Identifier: Apache-2.0
 *
 * One object in memory behind struct uw_storage, with a fault: the n-th call fails. */
#ifndef UWASA_TEST_MEMORY_STORAGE_H
#define UWASA_TEST_MEMORY_STORAGE_H

#include "uwasa/storage.h"

#include <stdlib.h>
#include <string.h>

struct memory_storage {
    struct uw_storage base;
    uint8_t *bytes;                 /* the visible object; NULL: none */
    size_t bytes_n;
    uint8_t *pending;
    size_t pending_n;
    long fail_in;                   /* calls until one fails; 0: never */
};

static inline int memory_fault(struct memory_storage *m)
{
    return m->fail_in > 0 && --m->fail_in == 0 ? UW_ERR_IO : UW_OK;
}

static inline int memory_size(struct uw_storage *s, const char *object, uint64_t *bytes)
{
    struct memory_storage *m = (struct memory_storage *)s;
    (void)object;
    *bytes = m->bytes_n;
    return m->bytes == NULL ? UW_ERR_NOTFOUND : memory_fault(m);
}

static inline int memory_read(struct uw_storage *s, const char *object, uint64_t offset, void *buf,
                              size_t bytes)
{
    struct memory_storage *m = (struct memory_storage *)s;
    (void)object;
    if (offset > m->bytes_n || bytes > m->bytes_n - offset) {
        return UW_ERR_CORRUPT;
    }
    memcpy(buf, m->bytes + offset, bytes);
    return memory_fault(m);
}

static inline int memory_begin(struct uw_storage *s, const char *object)
{
    struct memory_storage *m = (struct memory_storage *)s;
    (void)object;
    m->pending_n = 0;
    return memory_fault(m);
}

static inline int memory_append(struct uw_storage *s, const void *buf, size_t bytes)
{
    struct memory_storage *m = (struct memory_storage *)s;
    m->pending = realloc(m->pending, m->pending_n + bytes + 1);
    memcpy(m->pending + m->pending_n, buf, bytes);
    m->pending_n += bytes;
    return memory_fault(m);
}

static inline int memory_end(struct uw_storage *s, int commit)
{
    struct memory_storage *m = (struct memory_storage *)s;
    int rc = memory_fault(m);
    if (commit && rc == UW_OK) {
        free(m->bytes);
        m->bytes = m->pending;
        m->bytes_n = m->pending_n;
    } else {
        free(m->pending);
    }
    m->pending = NULL;
    m->pending_n = 0;
    return rc;
}

static const struct uw_storage_ops memory_storage_ops = {
    .name = "memory",
    .size = memory_size,
    .read = memory_read,
    .begin = memory_begin,
    .append = memory_append,
    .end = memory_end,
};

static inline void memory_storage_release(struct memory_storage *m)
{
    free(m->bytes);
    free(m->pending);
    *m = (struct memory_storage){.base = {&memory_storage_ops}};
}

#endif
