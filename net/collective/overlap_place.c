/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of an overlap: fragments in the order in which they go first. */
#include "overlap.h"

static uint32_t fragment_n(const struct uw_overlap_config *c)
{
    uint64_t most = (uint64_t)c->chunk_n * UW_OVERLAP_CHUNKS_MAX;
    most = most < UINT32_MAX ? most : UINT32_MAX;
    return c->fragment_n != 0 && c->fragment_n < most ? c->fragment_n : (uint32_t)most;
}

static uint32_t fragments_of(const struct uw_overlap_config *c, uint32_t bucket)
{
    uint32_t n = fragment_n(c);
    return c->bucket_n[bucket] / n + (c->bucket_n[bucket] % n != 0 ? 1 : 0);
}

static int check(const struct uw_overlap_config *c, uint32_t *fragments_n)
{
    uint64_t sum = 0;
    if (c->kind == UW_ALLREDUCE_DOUBLING || c->kind == UW_ALLREDUCE_SWEEP) {
        return UW_ERR_UNSUPPORTED;
    }
    if (c->buckets_n == 0 || c->chunk_n == 0 || c->ranks_max < 2 ||
        c->ranks_max > UINT16_MAX) {
        return UW_ERR_INVALID;
    }
    for (uint32_t i = 0; i < c->buckets_n; i++) {
        if (c->bucket_n[i] == 0) {
            return UW_ERR_INVALID;
        }
        sum += fragments_of(c, i);
    }
    *fragments_n = sum <= UW_OVERLAP_FRAGMENTS_MAX ? (uint32_t)sum : 0;
    return sum <= UW_OVERLAP_FRAGMENTS_MAX ? UW_OK : UW_ERR_TOOBIG;
}

static int take_tables(struct uw_overlap *o, struct uw_arena *arena,
                       const struct uw_overlap_config *config)
{
    void *buckets = NULL, *fragments = NULL, *asking = NULL, *sending = NULL, *owing = NULL,
         *blocked = NULL, *waiting = NULL;
    *o = (struct uw_overlap){.config = *config};
    int rc = check(config, &o->fragments_n);
    if (rc < 0) {
        return rc;
    }
    o->words = o->fragments_n / 64u + 1u;
    size_t words_bytes = o->words * sizeof *o->asking;
    size_t ranks_bytes = config->ranks_max * sizeof *o->blocked;
    rc = uw_arena_take(arena, uw_size_mul(config->buckets_n, sizeof *o->buckets), &buckets);
    rc = rc < 0 ? rc : uw_arena_take(arena, o->fragments_n * sizeof *o->fragments, &fragments);
    rc = rc < 0 ? rc : uw_arena_take(arena, words_bytes, &asking);
    rc = rc < 0 ? rc : uw_arena_take(arena, words_bytes, &sending);
    rc = rc < 0 ? rc : uw_arena_take(arena, words_bytes, &owing);
    rc = rc < 0 ? rc : uw_arena_take(arena, ranks_bytes, &blocked);
    rc = rc < 0 ? rc : uw_arena_take(arena, ranks_bytes, &waiting);
    o->buckets = buckets;
    o->fragments = fragments;
    o->asking = asking;
    o->sending = sending;
    o->owing = owing;
    o->blocked = blocked;
    o->waiting = waiting;
    return rc;
}

size_t uw_overlap_bytes(const struct uw_overlap_config *config)
{
    struct uw_overlap o;
    struct uw_arena arena;
    uw_arena_init(&arena, NULL, 0);
    return take_tables(&o, &arena, config) == UW_OK ? arena.used_bytes : SIZE_MAX;
}

/* Cut a bucket into fragments of about equal size, the next ones in the table. */
static void cut(struct uw_overlap *o, uint32_t bucket, uint32_t *used)
{
    const struct uw_overlap_config *c = &o->config;
    uint32_t parts = fragments_of(c, bucket);
    uint64_t n = c->bucket_n[bucket];
    o->buckets[bucket].first = *used;
    o->buckets[bucket].fragments_n = parts;
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t at = (uint32_t)(n * i / parts), end = (uint32_t)(n * (i + 1) / parts);
        o->fragments[(*used)++] = (struct uw_fragment){.bucket = bucket, .at = at,
                                                       .size_n = end - at};
    }
}

int uw_overlap_place(struct uw_overlap *o, struct uw_arena *arena,
                     const struct uw_overlap_config *config)
{
    uint32_t used = 0, n = config->buckets_n;
    int rc = take_tables(o, arena, config);
    if (rc < 0 || o->fragments == NULL) {
        return rc;
    }
    uint32_t small_n = config->small_n != 0 ? config->small_n : config->chunk_n;
    for (uint32_t i = 0; i < 2 * n; i++) {
        uint32_t bucket = config->in_order ? n - 1 - i % n : i % n;
        bool first = config->in_order || config->bucket_n[bucket] <= small_n;
        if (first == (i < n)) {
            cut(o, bucket, &used);
        }
    }
    o->config.bucket_n = NULL;
    return UW_OK;
}
