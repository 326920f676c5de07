/* SPDX-License-Identifier: Apache-2.0
 *
 * Pulls of coded chunks over 802.15.4 frames: the same parameters to the bit in fewer frames, and
 * no worse where they do not compress, where frames are lost, and with nodes that have no code. */
#include "fault/radio_world.h"
#include "base/bits.h"
#include "node/node_pull.h"

#include <math.h>

#define SIZE_N 6000u

/* As weights are; or of any size, which is not shorter in the code. */
static void fill(struct radio_world *r, bool wide)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, 99);
    for (uint32_t i = 0; i < r->w->n; i++) {
        for (uint32_t k = 0; k < r->w->size_n; k++) {
            int far = wide ? -(int)uw_rng_below(&rng, 60) : 0;
            r->w->nodes[i].x[k] = ldexpf(0.05f * uw_rng_normal(&rng), far);
        }
    }
}

static void stop_after_a_round(struct world_node *n, int flags)
{
    if ((flags & UW_NODE_ROUND) != 0) {
        n->trains = false;
    }
}

static bool all_ready(struct world *w)
{
    const struct uw_membership *m = &w->nodes[1].node.state->membership;
    uint32_t ready = 0;
    for (uint32_t i = 1; i < m->members_n; i++) {
        ready += m->members[i].state == UW_MEMBER_ALIVE && m->members[i].progress.version != 0;
    }
    return ready == w->n - 1u;
}

static bool is_over(struct world *w)
{
    return w->nodes[1].rounds != 0;
}

static struct radio_world *open_world(uint32_t n, float loss, bool wide)
{
    struct radio_world *r = radio_world_new(n, SIZE_N, loss);
    r->w->config.code = true;
    fill(r, wide);
    for (uint32_t i = 0; i < n; i++) {
        r->w->nodes[i].slowness = i != 1u ? 1000000u : 1u;
        r->w->nodes[i].trains = i != 1u;
    }
    return r;
}

/* b's only round; returns the frames that it took. Each parameter is the mean of b's and one
 * other's, to the bit. */
static uint32_t pull(struct radio_world *r)
{
    struct world *w = r->w;
    float *before = malloc(SIZE_N * sizeof *before);
    memcpy(before, w->nodes[1].x, SIZE_N * sizeof *before);
    world_until(w, all_ready, 60000000);
    world_run(w, 3000000);
    w->nodes[1].rounds = 0;
    w->nodes[1].after = stop_after_a_round;
    w->nodes[1].trains = true;
    w->nodes[1].progress.lr = 0.0f;
    w->nodes[1].train_at_us = w->now_us;
    uint64_t frames_n = r->medium.messages_n;
    world_until(w, is_over, 600000000);
    frames_n = r->medium.messages_n - frames_n;
    for (uint32_t k = 0; k < SIZE_N; k++) {
        bool found = false;
        for (uint32_t i = 0; i < w->n; i++) {
            float theirs = w->nodes[i].x[k], mix = before[k] + 0.5f * (theirs - before[k]);
            found = found || (i != 1u && memcmp(&w->nodes[1].x[k], &mix, sizeof mix) == 0);
        }
        assert_true(found);
    }
    free(before);
    return (uint32_t)frames_n;
}

static uint32_t split_of(struct radio_world *r)
{
    return r->w->nodes[1].node.state->pull.first.transfer.split_n;
}

static void test_weights_take_a_tenth_fewer_frames(void **state)
{
    (void)state;
    uint32_t frames[2];
    for (uint32_t coded = 0; coded < 2; coded++) {
        struct radio_world *r = open_world(2, 0.0f, false);
        r->w->config.code = coded != 0;
        world_start(r->w);
        frames[coded] = pull(r);
        printf("%s: %u frames, %u chunks in two parts\n", coded ? "coded" : "plain",
               (unsigned)frames[coded], (unsigned)split_of(r));
        assert_int_equal(world_counters(r->w, 1).pulled_bytes, 4u * SIZE_N);
        radio_world_free(r);
    }
    assert_true(frames[1] * 100u <= frames[0] * 91u);
}

static void test_lost_frames_are_made_up_for(void **state)
{
    (void)state;
    for (uint32_t run = 0; run < 6; run++) {
        struct radio_world *r = open_world(3, run % 2u != 0 ? 0.4f : 0.2f, run >= 4u);
        r->w->seed += run;
        r->w->config.pull_peers = 1u + run / 2u % 2u;
        world_start(r->w);
        (void)pull(r);
        assert_int_equal(world_counters(r->w, 1).pulled_bytes, 4u * SIZE_N);
        assert_true(run < 4u || split_of(r) != 0);
        radio_world_free(r);
    }
}

/* The next rounds then do without. */
static void test_what_does_not_compress_comes_in_parts_and_turns_the_code_off(void **state)
{
    (void)state;
    struct radio_world *r = open_world(2, 0.0f, true);
    world_start(r->w);
    (void)pull(r);
    const struct uw_node_pull *p = &r->w->nodes[1].node.state->pull;
    assert_true(split_of(r) > p->first.transfer.chunks / 2u);
    assert_int_equal(world_counters(r->w, 1).pulled_bytes, 4u * SIZE_N);
    assert_true(p->plain_rounds != 0);
    assert_int_equal(uw_gossip_publish(&r->w->nodes[0].node.state->gossip, 2, true), UW_OK);
    (void)pull(r);
    assert_false(p->first.transfer.coded);
    radio_world_free(r);
}

/* Either side may lack it. */
static void test_nodes_without_the_code_are_pulled_from_and_pull(void **state)
{
    (void)state;
    for (uint32_t who = 0; who < 2; who++) {
        struct radio_world *r = open_world(2, 0.0f, false);
        struct uw_node_parts parts = uw_node_parts_all;
        for (uint32_t i = 0; i < 2; i++) {
            struct uw_node_config c = world_config(r->w, i);
            parts.codes = NULL;
            c.code = i != who;
            c.parts = i == who ? &parts : c.parts;
            world_up_with(r->w, i, c);
        }
        (void)pull(r);
        assert_int_equal(world_counters(r->w, 1).pulls_done, 1);
        assert_int_equal(world_counters(r->w, 1).pulls_refused, 0);
        assert_false(r->w->nodes[1].node.state->pull.first.transfer.coded);
        radio_world_free(r);
    }
}

static void test_a_radio_that_becomes_narrow_goes_on(void **state)
{
    (void)state;
    struct radio_world *r = open_world(2, 0.0f, false);
    world_start(r->w);
    world_until(r->w, all_ready, 60000000);
    radio_narrow(r, 1, 90);
    radio_narrow(r, 0, 90);
    (void)pull(r);
    assert_true(r->w->nodes[1].node.state->pull.first.transfer.coded);
    radio_world_free(r);
}

static void test_a_nan_in_the_code_is_refused(void **state)
{
    (void)state;
    struct radio_world *r = open_world(2, 0.0f, false);
    world_start(r->w);
    world_until(r->w, all_ready, 60000000);
    r->w->nodes[0].snapshot.data[SIZE_N / 2u] = NAN;
    r->w->nodes[1].trains = true;
    r->w->nodes[1].train_at_us = r->w->now_us;
    world_run(r->w, 20000000);
    assert_true(r->w->nodes[1].events[UW_NODE_CHUNK_NONFINITE] != 0);
    for (uint32_t k = 0; k < SIZE_N; k++) {
        assert_true(isfinite(r->w->nodes[1].x[k]));
    }
    radio_world_free(r);
}

/* Parts and whole chunks in any order: each float once. */
static void test_parts_and_wholes_come_once_each(void **state)
{
    (void)state;
    static uint64_t memory[8192];
    struct uw_arena arena;
    struct uw_pull p;
    struct uw_rng rng;
    const struct uw_path path = {.rtt_us = 1000};
    uint8_t seen[1000] = {0};
    uw_rng_seed(&rng, uw_test_seed(5));
    uw_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(uw_pull_place(&p, &arena, 1000, 8, 64), UW_OK);
    assert_int_equal(uw_pull_place_parts(&p, &arena), UW_OK);
    uw_pull_start(&p, 7, 1000, 28, &path, 1);
    uw_pull_coded(&p);
    for (uint32_t i = 0; !uw_pull_complete(&p); i++) {
        assert_true(i < 10000u);
        uint32_t chunk = uw_rng_below(&rng, p.chunks), n = uw_min_u32(28, 1000u - chunk * 28u);
        uint32_t first_n = uw_first_part_n(n), part = uw_rng_below(&rng, 3);
        uint32_t offset = chunk * 28u + (part == 1u ? first_n : 0);
        uint32_t count = part == 0 ? first_n : part == 1u ? n - first_n : n;
        int rc = uw_pull_check(&p, 7, offset, count);
        assert_true(rc == UW_OK || rc == UW_ERR_AGAIN);
        if (rc == UW_OK) {
            (void)uw_pull_new(&p, &offset, &count);
            uw_pull_took(&p, 0, offset, count, 2);
            for (uint32_t k = 0; k < count; k++) {
                assert_int_equal(seen[offset + k]++, 0);
            }
        }
        assert_int_equal(uw_pull_check(&p, 7, chunk * 28u + 1u, n), UW_ERR_CORRUPT);
        assert_int_equal(uw_pull_check(&p, 7, chunk * 28u, n + 1u), UW_ERR_CORRUPT);
    }
    for (uint32_t k = 0; k < 1000u; k++) {
        assert_int_equal(seen[k], 1);
    }
}

static int arrives(struct uw_pull *p, const uint8_t *frame, int bytes)
{
    const struct uw_short_data known = {.chunk_n = p->chunk_n, .transfer = p->transfer,
                                        .seq = (uint16_t)(p->seq - 1u),
                                        .asked_n = (uint16_t)(p->seq - p->first_seq)};
    struct uw_data d;
    assert_int_equal(uw_message_read_short_data(frame, (uint32_t)bytes, &known, &d), UW_OK);
    return uw_pull_check(p, d.transfer, d.offset_n, d.count_n);
}

/* The first part of a chunk of 28 is as long as a chunk of the next pull, but from elsewhere. */
static void test_a_part_of_the_pull_before_is_no_chunk_of_this_one(void **state)
{
    (void)state;
    static uint64_t memory[8192];
    struct uw_arena arena;
    struct uw_pull p;
    struct uw_want want;
    const struct uw_path path = {.rtt_us = 1000};
    const float x[28] = {0};
    uint8_t late[128], now[128];
    uw_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(uw_pull_place(&p, &arena, 1000, 8, 64), UW_OK);
    assert_int_equal(uw_pull_place_parts(&p, &arena), UW_OK);
    uw_pull_start(&p, 7, 1000, 28, &path, 1);
    uw_pull_coded(&p);
    assert_true(uw_pull_next(&p, 64, 1, &want));
    const uint32_t first_n = uw_first_part_n(28);
    struct uw_data d = {.seq = want.seq, .version = 1, .count_n = (uint16_t)first_n};
    int bytes = uw_message_encode_short_data(&d, 3, x, late, sizeof late);
    assert_int_equal(arrives(&p, late, bytes), UW_OK);
    uw_pull_stop(&p);
    uw_pull_start(&p, 8, 1000, first_n, &path, 2);
    assert_int_equal(arrives(&p, late, bytes), UW_ERR_MISMATCH);
    assert_true(uw_pull_next(&p, 64, 2, &want));
    assert_int_equal(arrives(&p, late, bytes), UW_ERR_MISMATCH);
    d.seq = want.seq;
    bytes = uw_message_encode_short_data(&d, 3, x, now, sizeof now);
    assert_int_equal(arrives(&p, now, bytes), UW_OK);
}

static void test_sizes_of_coded_chunks_go_back_and_forth(void **state)
{
    (void)state;
    for (uint32_t n = 8; n < 1000u; n++) {
        uint32_t wide = uw_node_wide_n(n);
        assert_int_equal(uw_node_plain_n(wide), n);
        assert_true(uw_first_part_n(wide) <= n && wide - uw_first_part_n(wide) <= n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_take_a_tenth_fewer_frames),
        cmocka_unit_test(test_lost_frames_are_made_up_for),
        cmocka_unit_test(test_what_does_not_compress_comes_in_parts_and_turns_the_code_off),
        cmocka_unit_test(test_nodes_without_the_code_are_pulled_from_and_pull),
        cmocka_unit_test(test_a_radio_that_becomes_narrow_goes_on),
        cmocka_unit_test(test_a_nan_in_the_code_is_refused),
        cmocka_unit_test(test_parts_and_wholes_come_once_each),
        cmocka_unit_test(test_a_part_of_the_pull_before_is_no_chunk_of_this_one),
        cmocka_unit_test(test_sizes_of_coded_chunks_go_back_and_forth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
