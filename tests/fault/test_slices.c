/* SPDX-License-Identifier: Apache-2.0
 *
 * Gossip of slices, on virtual time: a round brings an F-th of the bytes, F rounds all of them,
 * each element once, whatever is lost, dies or shows nothing new. */
#include "fault/gossip_world.h"
#include "node/node_pull.h"

#define SIZE_N 6000u
#define SLICES 5u

/* b ends a round every 20 ms, a shows the same for hours; neither learns. */
static struct world *pair(uint32_t size_n)
{
    struct world *w = world_new(2, size_n, 300);
    w->config.slices_n = SLICES;
    w->nodes[0].slowness = 1000000;
    world_start(w);
    return w;
}

static void test_slices_of_a_version_are_mixed_in_once_each(void **state)
{
    (void)state;
    for (uint32_t lossy = 0; lossy < 2; lossy++) {
        struct world *w = world_new(2, SIZE_N, 300);
        w->config.slices_n = SLICES;
        w->impairment.loss = lossy != 0 ? 0.2f : 0.0f;
        w->nodes[0].slowness = 1000000;
        world_start(w);
        world_run(w, 5000000);
        struct uw_node_counters c = world_counters(w, 1);
        assert_int_equal(c.pulls_done, SLICES);
        assert_int_equal(c.pulled_bytes, 4u * SIZE_N);
        assert_true(c.pulls_stale > 2u);
        for (uint32_t k = 0; k < SIZE_N; k++) {
            assert_float_equal(w->nodes[1].x[k], 1.5f, 1e-5);
        }
        world_free(w);
    }
}

static bool has_pulled(struct world *w)
{
    return world_counters(w, 1).pulls_done != 0;
}

/* 6000 floats are 60 chunks of 67 or so at 300 bytes: a fifth of them, give or take one. */
static void test_slices_bring_their_share_of_bytes_a_round(void **state)
{
    (void)state;
    struct world *w = pair(SIZE_N);
    world_until(w, has_pulled, 5000000);
    uint32_t chunk_n = w->nodes[1].node.state->pull.first.transfer.chunk_n;
    uint64_t pulled_n = world_counters(w, 1).pulled_bytes / 4u;
    assert_in_range(pulled_n, SIZE_N / SLICES - chunk_n, SIZE_N / SLICES + chunk_n);
    world_free(w);
}

/* A model of three chunks has three slices. */
static void test_slices_are_no_more_than_chunks(void **state)
{
    (void)state;
    struct world *w = pair(150);
    uint32_t chunks;
    world_run(w, 3000000);
    chunks = w->nodes[1].node.state->pull.first.transfer.chunks;
    assert_in_range(chunks, 2, SLICES - 1u);
    assert_int_equal(world_counters(w, 1).pulls_done, chunks);
    world_free(w);
}

/* A schedule of L peers asks the same one every L rounds: were the slices bound to that, each would
 * pass between the same nodes for ever. */
static void test_slices_come_once_in_f_rounds_and_from_every_peer_of_a_schedule(void **state)
{
    (void)state;
    for (uint32_t slices_n = 2; slices_n <= UW_NODE_SLICES_MAX; slices_n++) {
        for (uint32_t peers_n = 2; peers_n <= 12; peers_n++) {
            uint32_t peers[UW_NODE_SLICES_MAX] = {0};
            for (uint32_t turn = 0; turn < 16u * slices_n * peers_n; turn++) {
                uint32_t seen = 0;
                for (uint32_t k = 0; k < slices_n; k++) {
                    uint32_t round = turn * slices_n + k, at = uw_node_slice(77, round, slices_n);
                    seen |= (uint32_t)1 << at;
                    peers[at] |= (uint32_t)1 << round % peers_n;
                }
                assert_int_equal(seen, UINT32_MAX >> (32u - slices_n));
            }
            for (uint32_t k = 0; k < slices_n; k++) {
                assert_int_equal(peers[k], ((uint32_t)1 << peers_n) - 1u);
            }
        }
    }
}

static bool newcomer_has_pulled(struct world *w)
{
    return world_counters(w, 2).pulls_done != 0;
}

/* A newcomer takes all at once. */
static void test_slices_are_not_for_newcomers(void **state)
{
    (void)state;
    struct world *w = world_new(3, SIZE_N, 300);
    w->config.slices_n = SLICES;
    world_up(w, 0);
    world_up(w, 1);
    world_run(w, 5000000);
    struct uw_node_config c = world_config(w, 2);
    c.newcomer = true;
    world_up_with(w, 2, c);
    world_until(w, newcomer_has_pulled, 10000000);
    assert_int_equal(w->nodes[2].events[UW_NODE_ADOPTED], 1);
    assert_int_equal(world_counters(w, 2).pulled_bytes, 4u * SIZE_N);
    world_free(w);
}

static bool half_a_slice(struct world *w)
{
    const struct uw_pull *t = &w->nodes[1].node.state->pull.first.transfer;
    uint32_t here = t->chunks / SLICES - (t->chunks - t->have_chunks);
    return t->active && here > t->chunks / SLICES / 4u && here < t->chunks / SLICES;
}

/* The rest of a slice comes from another peer. */
static void test_slices_go_on_from_another_peer(void **state)
{
    (void)state;
    struct world *w = world_new(3, SIZE_N, 300);
    w->config.slices_n = SLICES;
    w->impairment = (struct uw_impairment){.rate_bits_per_s = 400000, .delay_us = 1000};
    world_start(w);
    world_until(w, half_a_slice, 20000000);
    uint32_t peer = w->nodes[1].node.state->pull.first.member;
    uint64_t bytes = world_counters(w, 1).pulled_bytes - w->nodes[1].node.state->pull.bytes;
    const char *name = w->nodes[1].node.state->membership.members[peer].name;
    uint32_t done = world_counters(w, 1).pulls_done;
    world_down(w, strcmp(name, w->nodes[0].name) == 0 ? 0 : 2);
    for (uint32_t i = 0; i < 1000 && world_counters(w, 1).pulls_done == done; i++) {
        world_run(w, 20000);
    }
    uint32_t chunk_n = w->nodes[1].node.state->pull.first.transfer.chunk_n;
    assert_int_equal(world_counters(w, 1).pulls_done, done + 1u);
    assert_int_equal(world_counters(w, 1).pulls_cut, 0);
    assert_true(w->nodes[1].events[UW_NODE_PULL_MOVED] != 0);
    assert_in_range((world_counters(w, 1).pulled_bytes - bytes) / 4u, SIZE_N / SLICES - chunk_n,
                    SIZE_N / SLICES + chunk_n + chunk_n * 12u);
    world_free(w);
}

static void test_slices_that_cannot_be_are_refused(void **state)
{
    static const struct {
        uint32_t slices_n;
        enum uw_node_mode mode;
        const struct uw_mix_rule *rule;
    } wrong[] = {{33, UW_NODE_GOSSIP, &uw_mix_none}, {2, UW_NODE_ALLREDUCE, &uw_mix_none},
                 {2, UW_NODE_GOSSIP, &uw_mix_kgt}};
    (void)state;
    struct world *w = pair(SIZE_N);
    for (uint32_t i = 0; i < 3; i++) {
        struct uw_node_config c = world_config(w, 0);
        struct uw_error err = {0};
        size_t bytes;
        c.link = &w->nodes[0].emulated.link;
        c.slices_n = wrong[i].slices_n;
        c.mode = wrong[i].mode;
        c.rule = wrong[i].rule;
        assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
        assert_non_null(strstr(err.text, "slices_n"));
    }
    static const struct uw_node_parts few = {.sentences = &uw_node_sentences};
    struct uw_node_config c = world_config(w, 0);
    struct uw_error err = {0};
    size_t bytes;
    c.link = &w->nodes[0].emulated.link;
    c.parts = &few;
    c.slices_n = 0;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_OK);
    c.slices_n = 2;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "slices"));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_of_a_version_are_mixed_in_once_each),
        cmocka_unit_test(test_slices_bring_their_share_of_bytes_a_round),
        cmocka_unit_test(test_slices_are_no_more_than_chunks),
        cmocka_unit_test(test_slices_come_once_in_f_rounds_and_from_every_peer_of_a_schedule),
        cmocka_unit_test(test_slices_are_not_for_newcomers),
        cmocka_unit_test(test_slices_go_on_from_another_peer),
        cmocka_unit_test(test_slices_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
