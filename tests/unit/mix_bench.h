/* SPDX-License-Identifier: Apache-2.0
 *
 * The training side of gossip by itself: the test takes the network thread's place. */
#ifndef UWASA_TESTS_MIX_BENCH_H
#define UWASA_TESTS_MIX_BENCH_H

#include "test_support.h"

#include "gossip/guard.h"

#define N 37u
#define CHUNK 10u

struct bench {
    struct uw_gossip g;
    struct uw_distances *guard;     /* for tests that put it into g */
    struct uw_params params;
    struct uw_snapshot snapshot;
    struct uw_segment segment;
    float *x, *m, *s;
    uint8_t memory[8192];
    struct uw_node_progress p;
};

static inline void set_up(struct bench *b, const struct uw_mix_rule *rule, uint32_t period,
                          bool newcomer)
{
    memset(b, 0, sizeof *b);
    b->x = uw_test_floats(N);
    b->m = uw_test_floats(N);
    b->s = uw_test_floats(N);
    for (uint32_t i = 0; i < N; i++) {
        b->x[i] = 1.0f + 0.1f * (float)i;
        b->m[i] = 0.0f;
    }
    b->segment = (struct uw_segment){.name = "w", .size_n = N};
    b->params = (struct uw_params){.x = b->x, .size_n = N, .segments = &b->segment,
                                   .segments_n = 1};
    b->snapshot.data = b->s;
    b->snapshot.size_n = N;
    atomic_flag_clear(&b->snapshot.busy);
    const struct uw_gossip_config c = {
        .params = &b->params, .snapshot = &b->snapshot, .velocity = b->m, .newcomer = newcomer,
        .rule = rule, .period_steps = period, .chunk_n = CHUNK, .slots_n = 8};
    struct uw_arena arena;
    uw_arena_init(&arena, b->memory, sizeof b->memory);
    assert_int_equal(uw_gossip_place(&b->g, &arena, &c), UW_OK);
    assert_int_equal(uw_distances_place(&b->guard, &arena, 1, 0, 2), UW_OK);
    b->p.lr = 0.1f;
}

static inline void tear_down(struct bench *b)
{
    uw_test_release(b->x);
    uw_test_release(b->m);
    uw_test_release(b->s);
}

static inline void push(struct bench *b, uint32_t round, uint32_t chunk, float v, bool adopt)
{
    struct uw_gossip_slot *slot = uw_gossip_slot(&b->g);
    assert_non_null(slot);
    slot->round = round;
    slot->offset_n = chunk * CHUNK;
    slot->count_n = N - slot->offset_n < CHUNK ? N - slot->offset_n : CHUNK;
    slot->adopt = adopt;
    slot->weight = 0.0f;
    for (uint32_t i = 0; i < slot->count_n; i++) {
        slot->x[i] = v;
    }
    uw_gossip_push(&b->g);
}

#endif
