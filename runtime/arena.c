/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/arena.h"

#include "uwasa/status.h"

#include <string.h>

void uw_arena_init(struct uw_arena *a, void *memory, size_t memory_bytes)
{
    *a = (struct uw_arena){.base = memory, .capacity_bytes = memory_bytes};
    if (memory == NULL) {
        a->capacity_bytes = SIZE_MAX;
        return;
    }
    size_t skip = (size_t)(-(uintptr_t)memory & (UW_ARENA_ALIGN - 1u));
    if (skip > memory_bytes) {
        skip = memory_bytes;
    }
    a->base += skip;
    a->capacity_bytes -= skip;
}

void uw_arena_init_foreign(struct uw_arena *a, void *memory, size_t memory_bytes)
{
    uw_arena_init(a, memory, memory_bytes);
    a->foreign = true;
}

size_t uw_arena_slack_bytes(void)
{
    return UW_ARENA_ALIGN - 1u;
}

static size_t padded_to(size_t align, size_t bytes)
{
    return bytes > SIZE_MAX - align ? SIZE_MAX : (bytes + align - 1u) & ~(align - 1u);
}

/* small: begin in what is left of the last block. */
static int take(struct uw_arena *a, bool small, size_t bytes, void **out)
{
    size_t start = a->used_bytes - (small ? a->left_bytes : 0);
    size_t end = bytes > SIZE_MAX - start ? SIZE_MAX : start + bytes;
    size_t padded = uw_arena_padded(end);
    *out = NULL;
    if (a->sealed) {
        return UW_ERR_SEALED;
    }
    if (padded == SIZE_MAX || padded > a->capacity_bytes) {
        return UW_ERR_NOMEM;
    }
    if (a->base != NULL) {
        *out = a->base + start;
#ifdef UW_WITHOUT_DEVICES
        memset(*out, 0, bytes);
#else
        if (!a->foreign) {
            memset(*out, 0, bytes);
        }
#endif
    }
    a->used_bytes = padded;
    a->left_bytes = padded - padded_to(_Alignof(max_align_t), end);
    return UW_OK;
}

int uw_arena_take(struct uw_arena *a, size_t bytes, void **out)
{
    return take(a, false, bytes, out);
}

int uw_arena_take_each(struct uw_arena *a, uint32_t n, const size_t *bytes, void **out)
{
    size_t total = 0;
    void *block;
    for (uint32_t i = 0; i < n; i++) {
        size_t padded = padded_to(_Alignof(max_align_t), bytes[i]);
        total = padded > SIZE_MAX - total ? SIZE_MAX : total + padded;
    }
    int rc = take(a, true, total, &block);
    uint8_t *at = block;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = bytes[i] != 0 ? at : NULL;
        at += at != NULL ? padded_to(_Alignof(max_align_t), bytes[i]) : 0;
    }
    return rc;
}

void uw_arena_seal(struct uw_arena *a)
{
    a->sealed = true;
}

size_t uw_arena_padded(size_t bytes)
{
    return padded_to(UW_ARENA_ALIGN, bytes);
}

size_t uw_size_mul(size_t a, size_t b)
{
    if (a != 0 && b > SIZE_MAX / a) {
        return SIZE_MAX;
    }
    return a * b;
}
