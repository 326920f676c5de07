/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks on a switch, on virtual time: every rank has one line to it and one from it, both at the
 * same rate, and a message occupies each of them for as long as its bytes take. It is handed on as
 * it comes in. A rank's queue has room for so much; what is beyond is refused with UW_ERR_AGAIN. */
#ifndef UWASA_TEST_OVERLAP_NET_H
#define UWASA_TEST_OVERLAP_NET_H

#include "collective/overlap.h"

#include "uwasa/rng.h"

#include <stdlib.h>
#include <string.h>

#define NET_RANKS_MAX 9u
#define NET_HEAD_BYTES 68u      /* of a message: the part's, TCP's and IP's */

struct net_message {
    uint64_t at_ns, order;
    uint32_t from, to;
    struct uw_part part;
    float *floats;
};

struct net {
    double byte_ns;             /* 0: no time */
    double scale;               /* a float stands for so many */
    uint64_t latency_ns, jitter_ns, queue_ns;
    double loss, twice, refuse;
    struct uw_rng rng;
    uint64_t now_ns, order;
    uint64_t out_ns[NET_RANKS_MAX], in_ns[NET_RANKS_MAX];   /* lines are free again */
    uint64_t sent_bytes[NET_RANKS_MAX], messages_n;
    struct net_message *heap;
    uint32_t heap_n, heap_max;
};

/* Bytes that an engine takes of an arena. */
static inline size_t net_overlap_bytes(const struct uw_overlap_config *config)
{
    struct uw_overlap o;
    struct uw_arena arena;
    uw_arena_init(&arena, NULL, 0);
    assert_int_equal(uw_overlap_place(&o, &arena, config), UW_OK);
    return arena.used_bytes;
}

static inline bool net_before(const struct net_message *a, const struct net_message *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static inline void net_push(struct net *n, const struct net_message *m)
{
    if (n->heap_n == n->heap_max) {
        n->heap_max = n->heap_max != 0 ? 2 * n->heap_max : 256;
        n->heap = realloc(n->heap, n->heap_max * sizeof *n->heap);
        assert_non_null(n->heap);
    }
    uint32_t i = n->heap_n++;
    for (; i > 0 && net_before(m, &n->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        n->heap[i] = n->heap[(i - 1) / 2];
    }
    n->heap[i] = *m;
}

static inline struct net_message net_pop(struct net *n)
{
    struct net_message first = n->heap[0], last = n->heap[--n->heap_n];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child + 1 < n->heap_n && net_before(&n->heap[child + 1], &n->heap[child])) {
            child++;
        }
        if (child >= n->heap_n || !net_before(&n->heap[child], &last)) {
            break;
        }
        n->heap[i] = n->heap[child];
        i = child;
    }
    n->heap[i] = last;
    return first;
}

static inline void net_post(struct net *n, uint32_t from, uint32_t to, const struct uw_part *part)
{
    struct net_message m = {.order = n->order++, .from = from, .to = to, .part = *part};
    double bytes = NET_HEAD_BYTES;
    if (part->type == UW_PART_DATA) {
        bytes += (double)part->count_n * sizeof(float) * n->scale;
        m.floats = malloc(part->count_n * sizeof(float));
        assert_non_null(m.floats);
        memcpy(m.floats, part->floats, part->count_n * sizeof(float));
        m.part.floats = m.floats;
    }
    uint64_t takes_ns = (uint64_t)(bytes * n->byte_ns);
    uint64_t out_ns = n->now_ns > n->out_ns[from] ? n->now_ns : n->out_ns[from];
    uint64_t in_ns = out_ns + n->latency_ns;
    in_ns = in_ns > n->in_ns[to] ? in_ns : n->in_ns[to];
    n->out_ns[from] = out_ns + takes_ns;
    n->in_ns[to] = in_ns + takes_ns;
    m.at_ns = in_ns + takes_ns;
    m.at_ns += n->jitter_ns != 0 ? uw_rng_below(&n->rng, (uint32_t)n->jitter_ns) : 0;
    n->sent_bytes[from] += (uint64_t)bytes;
    n->messages_n++;
    net_push(n, &m);
}

/* As the engine's send. */
static inline int net_send(struct net *n, uint32_t from, uint32_t to, const struct uw_part *part)
{
    if ((n->queue_ns != 0 && n->out_ns[from] > n->now_ns + n->queue_ns) ||
        (n->refuse > 0.0 && (double)uw_rng_uniform(&n->rng) < n->refuse)) {
        return UW_ERR_AGAIN;
    }
    if ((double)uw_rng_uniform(&n->rng) >= n->loss) {
        net_post(n, from, to, part);
    }
    if ((double)uw_rng_uniform(&n->rng) < n->twice) {
        net_post(n, from, to, part);
    }
    return UW_OK;
}

/* When a rank's queue has room; 0: it has. */
static inline uint64_t net_room_ns(const struct net *n, uint32_t rank)
{
    bool full = n->queue_ns != 0 && n->out_ns[rank] > n->now_ns + n->queue_ns;
    return full ? n->out_ns[rank] - n->queue_ns : 0;
}

static inline void net_close(struct net *n)
{
    for (uint32_t i = 0; i < n->heap_n; i++) {
        free(n->heap[i].floats);
    }
    free(n->heap);
    n->heap = NULL;
    n->heap_n = n->heap_max = 0;
}

#endif
