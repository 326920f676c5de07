/* SPDX-License-Identifier: Apache-2.0
 *
 * One pull under every kind of fault. The claim is always the same: an element is its old value or
 * the exact mix, chunk by chunk, never anything else. */
#include "fault/gossip_world.h"

#define ONE_ROUND 1000000u          /* steps: only the first round's pull ever happens */

static float value(uint32_t place, uint32_t k)
{
    return place == 0 ? 1.0f + 0.001f * (float)k : -0.002f * (float)k;
}

/* Node a serves, node b pulls once, as soon as it knows a. */
static struct world *pair(uint32_t size_n, uint32_t mtu_bytes)
{
    struct world *w = world_new(2, size_n, mtu_bytes);
    w->config.period_steps = ONE_ROUND;
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < size_n; k++) {
            w->nodes[i].x[k] = value(i, k);
        }
    }
    w->nodes[1].trains = false;
    return w;
}

static bool b_knows_a(struct world *w)
{
    struct uw_member *m = uw_membership_at(&w->nodes[1].node.state->membership, 0);
    return m != NULL && m->state == UW_MEMBER_ALIVE && m->progress.version != 0;
}

static void begin(struct world *w)
{
    world_start(w);
    world_until(w, b_knows_a, 20000000);
    w->nodes[1].trains = true;
    w->nodes[1].train_at_us = w->now_us;
}

static bool pull_is_over(struct world *w)
{
    const struct world_node *b = &w->nodes[1];
    return b->events[UW_NODE_PULL_DONE] + b->events[UW_NODE_PULL_CUT] +
               b->events[UW_NODE_PULL_REFUSED] != 0;
}

/* Counts mixed elements; every other one must be as it was. */
static uint32_t mixed(const struct world *w)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < w->size_n; k++) {
        float mix = value(1, k) + 0.5f * (value(0, k) - value(1, k));
        float x = w->nodes[1].x[k];
        if (x == mix) {
            n++;
        } else if (x != value(1, k)) {
            fail_msg("element %u is %g, neither %g nor %g", (unsigned)k, (double)x,
                     (double)value(1, k), (double)mix);
        }
    }
    return n;
}

static void settle(struct world *w)
{
    world_until(w, pull_is_over, 200000000);
    world_run(w, 20000);
}

static void test_pull_through_a_bad_link_mixes_every_element(void **state)
{
    (void)state;
    static const struct uw_impairment bad[] = {
        {.delay_us = 300},
        {.delay_us = 300, .loss = 0.05f},
        {.delay_us = 2000, .loss = 0.2f},
        {.delay_us = 2000, .loss = 0.4f},
        {.delay_us = 1000, .duplicate = 0.3f},
        {.delay_us = 5000, .reorder = 0.3f},
        {.delay_us = 1000, .corrupt = 0.2f},
        {.delay_us = 20000, .jitter_us = 10000, .loss = 0.1f, .duplicate = 0.05f,
         .reorder = 0.1f, .corrupt = 0.05f, .rate_bits_per_s = 2000000},
    };
    static const uint32_t mtus[] = {127, 300, 1232, 9000};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (size_t m = 0; m < sizeof mtus / sizeof mtus[0]; m++) {
            struct world *w = pair(3001, mtus[m]);
            w->impairment = bad[i];
            begin(w);
            settle(w);
            assert_int_equal(w->nodes[1].events[UW_NODE_PULL_DONE], 1);
            assert_int_equal(mixed(w), w->size_n);
            if (bad[i].corrupt > 0.1f && mtus[m] < 1000u) {     /* enough chunks to be sure */
                assert_true(world_counters(w, 1).refused_corrupt > 0);
            }
            world_free(w);
        }
    }
}

static void test_pull_whose_server_dies_after_any_datagram_leaves_old_or_mixed(void **state)
{
    (void)state;
    uint32_t partial = 0;
    for (uint32_t k = 1; k < 30; k++) {
        struct world *w = pair(601, 127);       /* 24 chunks */
        char drop[16];
        begin(w);
        uint64_t seen = w->nodes[0].emulated.out.seen_n;
        snprintf(drop, sizeof drop, "%u-", (unsigned)(seen + k));
        struct uw_impairment dies = w->impairment;
        dies.drop = drop;
        assert_int_equal(uw_link_emulated_impair(&w->nodes[0].emulated, &dies, NULL), UW_OK);
        settle(w);
        uint32_t n = mixed(w);
        partial += n != 0 && n != w->size_n;
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_DONE], n == w->size_n);
        world_free(w);
    }
    assert_true(partial > 10);
}

/* All elements of a version are equal: every chunk must be of one version. */
static void drift(struct world_node *n)
{
    for (uint32_t k = 0; k < n->world->size_n; k++) {
        n->x[k] = 1000.0f * (float)n->progress.step;
    }
    assert_int_equal(uw_snapshot_publish(&n->snapshot, n->x, n->progress.step), UW_OK);
}

static void test_pull_while_the_server_publishes_mixes_each_chunk_from_one_version(void **state)
{
    (void)state;
    struct world *w = pair(3000, 127);
    w->impairment.rate_bits_per_s = 1000000;
    w->nodes[0].train = drift;
    for (uint32_t k = 0; k < w->size_n; k++) {
        w->nodes[1].x[k] = 8192.0f;
    }
    begin(w);
    settle(w);
    assert_int_equal(w->nodes[1].events[UW_NODE_PULL_DONE], 1);
    uint32_t chunk_n = w->nodes[1].node.state->chunk_n;
    uint32_t versions = 1;
    for (uint32_t k = 1; k < w->size_n; k++) {
        if (k % chunk_n != 0) {
            assert_float_equal(w->nodes[1].x[k], w->nodes[1].x[k - 1], 0.0);
        } else {
            versions += w->nodes[1].x[k] != w->nodes[1].x[k - 1];
        }
    }
    assert_true(versions > 2);
    world_free(w);
}

static bool pull_is_half_way(struct world *w)
{
    const struct uw_pull *t = &w->nodes[1].node.state->pull.first.transfer;
    return t->active && t->have_chunks > t->chunks / 2u;
}

static void test_pull_resumes_after_a_short_partition(void **state)
{
    (void)state;
    struct world *w = pair(5000, 127);
    w->impairment.rate_bits_per_s = 500000;
    begin(w);
    world_until(w, pull_is_half_way, 20000000);
    uint32_t had = w->nodes[1].node.state->pull.first.transfer.have_chunks;
    uw_link_emulated_cut(&w->nodes[0].emulated, UW_LINK_STATION_BROADCAST, UW_EMULATED_BOTH);
    world_run(w, 2000000);
    assert_false(pull_is_over(w));
    uw_link_emulated_cut(&w->nodes[0].emulated, UW_LINK_STATION_BROADCAST, 0);
    settle(w);
    assert_int_equal(w->nodes[1].events[UW_NODE_PULL_DONE], 1);
    assert_int_equal(mixed(w), w->size_n);
    /* What had arrived was not asked for again. */
    assert_true(world_counters(w, 1).chunks_again < 200 && had > 90);
    world_free(w);
}

static bool b_is_half_way_and_pings_a_late(struct world *w)
{
    const struct uw_membership *m = &w->nodes[1].node.state->membership;
    return pull_is_half_way(w) && m->members[1].asked_us == 0 &&
           m->members[1].next_us > w->now_us + 10000000u;
}

static bool b_suspects_a(struct world *w)
{
    return world_state(w, 1, "a") == UW_MEMBER_SUSPECT;
}

/* Where pings are rare the pull is the first to notice, after 4 s at most; 2 s for the question
 * and 2.1 s of silence follow. */
static void test_who_falls_silent_in_a_pull_is_asked_whether_it_lives(void **state)
{
    (void)state;
    struct world *w = pair(5000, 127);
    w->config.membership_rate = 8;
    w->config.period_steps = 1;
    w->train_us = 1000000;
    w->impairment.rate_bits_per_s = 500000;
    begin(w);
    world_run(w, 120000000);
    world_until(w, b_is_half_way_and_pings_a_late, 60000000);
    world_down(w, 0);
    uint64_t down_us = w->now_us;
    world_until(w, b_suspects_a, 30000000);
    print_message("suspected %.1f s after it died\n", (double)(w->now_us - down_us) * 1e-6);
    assert_true(w->now_us - down_us < 8200000u);
    world_free(w);
}

/* A path too slow for the whole model: each pull is cut, the next begins where it stopped. */
static void test_pulls_that_are_always_cut_mix_every_part_of_the_model_in_turn(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1601, 4000, 6400};     /* chunks: fewer than, like, n * 64 */
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct world *w = pair(sizes[i], 127);
        w->config.period_steps = 1;
        w->config.pull_us = 400000;
        w->train_us = 20000;
        w->impairment.rate_bits_per_s = 40000;
        w->impairment.loss = 0.05f;
        w->nodes[1].trains = true;
        world_start(w);
        world_run(w, 60000000);
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_DONE], 0);
        assert_true(w->nodes[1].events[UW_NODE_PULL_CUT] > 10);
        for (uint32_t k = 0; k < w->size_n; k++) {
            if (w->nodes[1].x[k] == value(1, k)) {
                fail_msg("element %u of %u was never mixed", (unsigned)k, (unsigned)w->size_n);
            }
        }
        world_free(w);
    }
}

/* b between a and c, which hold different vectors; b pulls from either, once. */
static struct world *trio(uint32_t mtu_bytes)
{
    struct world *w = world_new(3, 601, mtu_bytes);
    w->config.period_steps = ONE_ROUND;
    w->impairment.rate_bits_per_s = 300000;
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < w->size_n; k++) {
            w->nodes[i].x[k] = value(i, k) + (i == 2u ? 0.25f : 0.0f);
        }
    }
    w->nodes[1].trains = false;
    world_start(w);
    return w;
}

static bool b_knows_all(struct world *w)
{
    const struct uw_membership *m = &w->nodes[1].node.state->membership;
    bool all = m->members_n == w->n;
    for (uint32_t i = 1; i < m->members_n; i++) {
        all = all && m->members[i].state == UW_MEMBER_ALIVE && m->members[i].progress.version != 0;
    }
    return all;
}

static bool b_has_started(struct world *w)
{
    return w->nodes[1].node.state->pull.first.transfer.active;
}

/* Let b begin; returns the node it pulls from. */
static uint32_t let_b_begin(struct world *w)
{
    world_until(w, b_knows_all, 20000000);
    w->nodes[1].trains = true;
    w->nodes[1].train_at_us = w->now_us;
    world_until(w, b_has_started, 1000000);
    const struct uw_node_state *s = w->nodes[1].node.state;
    return s->membership.members[s->pull.first.member].station;
}

static void test_pull_whose_server_dies_is_finished_by_another_peer(void **state)
{
    (void)state;
    uint32_t of_both = 0;
    for (uint32_t k = 1; k < 24; k++) {
        struct world *w = trio(127);        /* 24 chunks */
        char drop[16];
        uint32_t first = let_b_begin(w), other = first == 0 ? 2 : 0;
        uint64_t seen = w->nodes[first].emulated.out.seen_n;
        snprintf(drop, sizeof drop, "%u-", (unsigned)(seen + k));
        struct uw_impairment dies = w->impairment;
        dies.drop = drop;
        assert_int_equal(uw_link_emulated_impair(&w->nodes[first].emulated, &dies, NULL), UW_OK);
        settle(w);
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_DONE], 1);
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_CUT], 0);
        uint32_t of[2] = {0, 0};
        for (uint32_t i = 0; i < w->size_n; i++) {
            float add[2] = {first == 2 ? 0.25f : 0.0f, other == 2 ? 0.25f : 0.0f};
            float own = value(1, i);
            float mix[2] = {own + 0.5f * (value(first, i) + add[0] - own),
                            own + 0.5f * (value(other, i) + add[1] - own)};
            of[w->nodes[1].x[i] == mix[0] ? 0 : 1]++;
            assert_true(w->nodes[1].x[i] == mix[0] || w->nodes[1].x[i] == mix[1]);
        }
        of_both += of[0] != 0 && of[1] != 0;
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_MOVED], of[1] != 0);
        assert_int_equal(world_counters(w, 1).pulled_bytes, w->size_n * 4u);
        const struct uw_node_peer *p = w->nodes[1].node.state->peers;
        assert_true(!of[0] || !of[1] || p[1].mixed_version + p[2].mixed_version == 0);
        world_free(w);
    }
    assert_true(of_both > 10);
}

static bool b_has_begun_to_mix(struct world *w)
{
    return world_counters(w, 1).chunks_mixed > 2u;
}

/* Of the two who are left one cannot send chunks of that size: the other goes on. */
static void test_pull_goes_on_with_whose_link_is_wide_enough(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 12; k++) {
        struct world *w = world_new(4, 601, 127);
        w->config.period_steps = ONE_ROUND;
        w->seed += k;
        w->impairment.rate_bits_per_s = 300000;
        w->nodes[1].trains = false;
        world_start(w);
        (void)let_b_begin(w);
        world_until(w, b_has_begun_to_mix, 20000000);
        struct uw_node_state *s = w->nodes[1].node.state;
        const uint32_t first = s->pull.first.member;
        s->membership.members[first].state = UW_MEMBER_LEFT;
        s->peers[(first + k % 2u) % 3u + 1u].chunk_limit_n = 8;
        settle(w);
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_CUT], 0);
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_MOVED], 1);
        world_free(w);
    }
}

static bool b_pulls_from_a(struct world *w)
{
    const struct uw_node_state *s = w->nodes[1].node.state;
    const struct uw_pull *t = &s->pull.first.transfer;
    return t->active && t->have_chunks > t->chunks / 4u && t->have_chunks < t->chunks / 2u &&
           s->membership.members[s->pull.first.member].station == 0;
}

/* Where pulls are quick the deadline is short; the other peer is asked before it has passed. So
 * it is between cells. */
static void test_quick_pull_whose_server_dies_is_finished_in_time(void **state)
{
    static const enum uw_node_mode modes[] = {UW_NODE_GOSSIP, UW_NODE_HIERARCHICAL};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct world *w = world_new(3, 4000, 300);
        w->config.mode = modes[i];
        w->config.head_weight = 1;
        w->train_us = 20000;
        w->impairment.rate_bits_per_s = 4000000;
        world_start(w);
        world_run(w, 10000000);
        assert_true(w->nodes[1].node.state->pull.took.took_n > 5);
        world_until(w, b_pulls_from_a, 20000000);
        uint32_t done = w->nodes[1].events[UW_NODE_PULL_DONE];
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_CUT], 0);
        world_down(w, 0);
        world_run(w, 1500000);
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_MOVED], 1);
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_CUT], 0);
        assert_true(w->nodes[1].events[UW_NODE_PULL_DONE] > done);
        world_free(w);
    }
}

/* The outlier waits in the ring while its sender dies: it is blamed, not who would go on. */
static void test_outlier_of_a_peer_that_died_is_not_blamed_on_the_next(void **state)
{
    (void)state;
    struct world *w = trio(127);
    world_until(w, b_knows_all, 20000000);
    for (uint32_t i = 0; i < 3; i += 2) {
        for (uint32_t k = 0; k < w->size_n; k++) {
            w->nodes[i].snapshot.data[k] = 1e6f;
        }
    }
    uint32_t first = let_b_begin(w);
    w->nodes[1].trains = false;
    world_run(w, 50000);
    const struct uw_node_state *s = w->nodes[1].node.state;
    assert_true(s->pull.first.transfer.have_chunks != 0);
    uw_link_emulated_cut(&w->nodes[first].emulated, UW_LINK_STATION_BROADCAST, UW_EMULATED_OUT);
    world_run(w, 20000000);
    assert_int_equal(w->nodes[1].events[UW_NODE_PULL_MOVED], 0);
    assert_int_equal(s->membership.members[s->pull.first.member].station, first);
    w->nodes[1].trains = true;
    w->nodes[1].train_at_us = w->now_us;
    world_run(w, 1000000);
    assert_int_equal(w->nodes[1].events[UW_NODE_PULL_MOVED], 0);
    assert_int_equal(w->nodes[1].events[UW_NODE_CHUNK_OUTLIER], 1);
    for (uint32_t i = 1; i < 3; i++) {
        const struct uw_member *m = &s->membership.members[i];
        assert_int_equal(s->peers[i].refused_n, m->station == first);
    }
    for (uint32_t k = 0; k < w->size_n; k++) {
        assert_float_equal(w->nodes[1].x[k], value(1, k), 0.0);
    }
    world_free(w);
}

static void test_pull_into_a_slow_training_thread_drops_nothing(void **state)
{
    (void)state;
    struct world *w = pair(20000, 127);
    w->config.window_bytes = 2000;
    w->train_us = 20000;
    begin(w);
    settle(w);
    assert_int_equal(w->nodes[1].events[UW_NODE_PULL_DONE], 1);
    assert_int_equal(mixed(w), w->size_n);
    assert_int_equal(world_counters(w, 1).chunks_twice, 0);
    world_free(w);
}

static void test_pull_between_links_of_different_size_agrees_on_the_smaller(void **state)
{
    (void)state;
    struct world *w = pair(2000, 1232);
    world_start(w);
    w->nodes[0].node.state->chunk_n = 40;       /* as if a's link were narrower */
    world_until(w, b_knows_a, 20000000);
    w->nodes[1].trains = true;
    settle(w);
    assert_int_equal(w->nodes[1].events[UW_NODE_PULL_DONE], 1);
    assert_int_equal(mixed(w), w->size_n);
    world_free(w);
}

static void test_serve_shares_its_turns_among_stations(void **state)
{
    (void)state;
    struct uw_arena arena;
    static uint8_t memory[65536];
    struct uw_serve s;
    uw_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(uw_serve_place(&s, &arena, 4, UW_SERVE_WANTS, 6400), UW_OK);
    struct uw_want greedy = {.chunk_n = 10, .wanted = UINT64_MAX};
    for (uint16_t i = 0; i < 100; i++) {
        greedy.seq = i;
        assert_int_equal(uw_serve_add(&s, 1, &greedy, 0), UW_OK);
    }
    struct uw_want modest = {.chunk_n = 10, .wanted = 0xf};
    assert_int_equal(uw_serve_add(&s, 2, &modest, 0), UW_OK);
    uint32_t modest_n = 0;
    uint32_t all = 0;
    struct uw_serve_item item;
    while (modest_n < 4) {
        assert_true(uw_serve_next(&s, 0, &item));
        modest_n += item.station == 2;
        all++;
        uw_serve_sent(&s, &item);
    }
    assert_true(all <= 8);
    while (uw_serve_next(&s, 0, &item)) {
        uw_serve_sent(&s, &item);
        all++;
    }
    assert_true(all <= 64 * UW_SERVE_WANTS + 8);
    modest.base = 640;
    assert_int_equal(uw_serve_add(&s, 2, &modest, 0), UW_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pull_through_a_bad_link_mixes_every_element),
        cmocka_unit_test(test_pull_whose_server_dies_after_any_datagram_leaves_old_or_mixed),
        cmocka_unit_test(test_pull_while_the_server_publishes_mixes_each_chunk_from_one_version),
        cmocka_unit_test(test_pull_resumes_after_a_short_partition),
        cmocka_unit_test(test_who_falls_silent_in_a_pull_is_asked_whether_it_lives),
        cmocka_unit_test(test_pulls_that_are_always_cut_mix_every_part_of_the_model_in_turn),
        cmocka_unit_test(test_pull_whose_server_dies_is_finished_by_another_peer),
        cmocka_unit_test(test_pull_goes_on_with_whose_link_is_wide_enough),
        cmocka_unit_test(test_quick_pull_whose_server_dies_is_finished_in_time),
        cmocka_unit_test(test_outlier_of_a_peer_that_died_is_not_blamed_on_the_next),
        cmocka_unit_test(test_pull_into_a_slow_training_thread_drops_nothing),
        cmocka_unit_test(test_pull_between_links_of_different_size_agrees_on_the_smaller),
        cmocka_unit_test(test_serve_shares_its_turns_among_stations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
