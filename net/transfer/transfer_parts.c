/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks as they arrive: whole, or in two parts (UW_WANT_CODED). */
#include "transfer.h"

#include "base/bits.h"

#include <string.h>

#define WHOLE 2u
#define NEITHER 3u

int uw_pull_place_parts(struct uw_pull *p, struct uw_arena *arena)
{
    void *part = NULL;
    int rc = uw_arena_take(arena, uw_size_mul(p->words_max, 2u * sizeof *p->parts), &part);
    p->parts = part;
    return rc;
}

void uw_pull_coded(struct uw_pull *p)
{
    p->coded = p->parts != NULL;
    if (p->coded) {
        memset(p->parts, 0, 2u * ((p->chunks + 31u) / 32u) * sizeof *p->parts);
    }
}

/* Which part of a chunk these floats are. */
static uint32_t part_of(const struct uw_pull *p, uint32_t offset_n, uint32_t count_n)
{
    uint32_t at = offset_n % p->chunk_n, n = uw_min_u32(p->size_n - offset_n + at, p->chunk_n);
    uint32_t first_n = uw_first_part_n(n);
    if (at == 0 && count_n == n) {
        return WHOLE;
    }
    return !p->coded                                    ? NEITHER
           : at == 0 && count_n == first_n              ? 0
           : at == first_n && count_n == n - first_n    ? 1
                                                        : NEITHER;
}

int uw_pull_check(struct uw_pull *p, uint16_t transfer, uint32_t offset_n, uint32_t count_n)
{
    if (!p->active || transfer != p->transfer) {
        return UW_ERR_MISMATCH;
    }
    uint32_t part = offset_n < p->size_n ? part_of(p, offset_n, count_n) : NEITHER;
    if (part == NEITHER) {
        return UW_ERR_CORRUPT;
    }
    uint32_t chunk = offset_n / p->chunk_n;
    if (uw_set_has(p->have, chunk) ||
        (part != WHOLE && uw_set_has(p->parts, 2u * chunk + part))) {
        p->twice_n++;
        return UW_ERR_AGAIN;
    }
    return UW_OK;
}

uint32_t uw_pull_new(const struct uw_pull *p, uint32_t *offset_n, uint32_t *count_n)
{
    uint32_t chunk = *offset_n / p->chunk_n, first_n = uw_first_part_n(*count_n);
    if (!p->coded || part_of(p, *offset_n, *count_n) != WHOLE) {
        return 0;
    }
    if (uw_set_has(p->parts, 2u * chunk)) {
        *offset_n += first_n;
        *count_n -= first_n;
        return first_n;
    }
    *count_n = uw_set_has(p->parts, 2u * chunk + 1u) ? first_n : *count_n;
    return 0;
}

void uw_pull_took(struct uw_pull *p, uint16_t seq, uint32_t offset_n, uint32_t count_n,
                  uint64_t now_us)
{
    uint32_t part = part_of(p, offset_n, count_n), chunk = offset_n / p->chunk_n;
    if (part != WHOLE) {
        uw_set_add(p->parts, 2u * chunk + part);
        p->progress_us = now_us;
        p->backoff = 0;
        if (!uw_set_has(p->parts, 2u * chunk + 1u - part)) {
            return;
        }
        p->split_n++;
    }
    uw_pull_arrived(p, seq, chunk * p->chunk_n, now_us);
}
