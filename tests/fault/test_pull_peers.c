/* SPDX-License-Identifier: Apache-2.0
 *
 * Pulls from several peers at once, on virtual time: each element is mixed with one peer's, once,
 * whatever is lost, slow, asleep or dies; and links that are slow each for itself add up. */
#include "fault/radio_world.h"
#include "base/bits.h"
#include "node/node_pull.h"

#include "uwasa/peer_schedule.h"

#include <math.h>

#define SIZE_N 6000u
#define MTU 300u
#define PEERS 3u

/* b pulls once from a, c and d. */
static struct world *star_of(uint32_t peers, uint32_t size_n)
{
    struct world *w = world_new(PEERS + 1u, size_n, MTU);
    w->config.pull_peers = peers;
    for (uint32_t i = 0; i < w->n; i++) {
        w->nodes[i].slowness = i != 1u ? 1000000u : 1u;
    }
    w->nodes[1].trains = false;
    return w;
}

static struct world *star(uint32_t peers)
{
    return star_of(peers, SIZE_N);
}

static bool b_knows_all(struct world *w)
{
    const struct uw_membership *m = &w->nodes[1].node.state->membership;
    uint32_t ready = 0;
    for (uint32_t i = 1; i < m->members_n; i++) {
        ready += m->members[i].state == UW_MEMBER_ALIVE && m->members[i].progress.version != 0;
    }
    return ready == w->n - 1u;
}

static void stop_after_a_round(struct world_node *n, int flags)
{
    if ((flags & UW_NODE_ROUND) != 0) {
        n->trains = false;
    }
}

static void begin(struct world *w)
{
    world_until(w, b_knows_all, 30000000);
    w->nodes[1].after = stop_after_a_round;
    w->nodes[1].trains = true;
    w->nodes[1].train_at_us = w->now_us;
}

static bool is_over(struct world *w)
{
    return w->nodes[1].rounds != 0;
}

static bool is_pulling(struct world *w)
{
    return w->nodes[1].node.state->pull.first.transfer.active;
}

/* Runs the round; returns what it took. */
static uint64_t pull(struct world *w)
{
    begin(w);
    world_until(w, is_pulling, 1000000);
    uint64_t since_us = w->now_us;
    world_until(w, is_over, 200000000);
    return w->now_us - since_us;
}

/* Every element is the mean of b's and one peer's, or, where some_left, b's own. of[i]: how many
 * are with node i. */
static void count(struct world *w, uint32_t of[PEERS + 1u], bool some_left)
{
    memset(of, 0, (PEERS + 1u) * sizeof of[0]);
    for (uint32_t k = 0; k < w->size_n; k++) {
        uint32_t with = 1;
        for (uint32_t i = 0; i < w->n; i++) {
            with = w->nodes[1].x[k] == (2.0f + (float)(i + 1u)) / 2.0f ? i : with;
        }
        if (with == 1u && !(some_left && w->nodes[1].x[k] == 2.0f)) {
            fail_msg("element %u is %g", (unsigned)k, (double)w->nodes[1].x[k]);
        }
        of[with]++;
    }
}

static void test_each_element_is_mixed_once_and_all_peers_give(void **state)
{
    (void)state;
    static const struct uw_impairment ways[] = {
        {.delay_us = 500}, {.delay_us = 500, .loss = 0.2f},
        {.delay_us = 5000, .reorder = 0.3f, .duplicate = 0.2f},
        {.delay_us = 1000, .corrupt = 0.1f},
        {.delay_us = 2000, .rate_bits_per_s = 500000, .loss = 0.05f}};
    for (uint32_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        for (uint32_t peers = 2; peers <= UW_NODE_PULL_PEERS_MAX; peers += peers == 3 ? 5u : 1u) {
            struct world *w = star(peers);
            uint32_t of[PEERS + 1u], gave = 0;
            w->impairment = ways[i];
            world_start(w);
            (void)pull(w);
            count(w, of, false);
            for (uint32_t k = 0; k < w->n; k++) {
                gave += of[k] != 0;
            }
            assert_int_equal(gave, peers < PEERS ? peers : PEERS);
            assert_int_equal(world_counters(w, 1).pulled_bytes, 4u * SIZE_N);
            assert_int_equal(world_counters(w, 1).pulls_done, 1);
            world_free(w);
        }
    }
}

/* What a pull takes where each peer sends at its own rate. */
static uint64_t took_us(uint32_t peers, const uint32_t rates[PEERS + 1u])
{
    struct world *w = star_of(peers, 10u * SIZE_N);
    for (uint32_t i = 0; i < w->n; i++) {
        w->impairment = (struct uw_impairment){.delay_us = 2000, .rate_bits_per_s = rates[i]};
        world_up(w, i);
    }
    uint64_t us = pull(w);
    printf("%u peers at %u, %u and %u kbit/s: %.3f s\n", (unsigned)peers,
           (unsigned)rates[0] / 1000u, (unsigned)rates[2] / 1000u, (unsigned)rates[3] / 1000u,
           (double)us / 1e6);
    world_free(w);
    return us;
}

static void test_slow_links_add_up(void **state)
{
    (void)state;
    static const uint32_t even[] = {200000, 200000, 200000, 200000};
    uint64_t one_us = took_us(1, even), three_us = took_us(3, even);
    assert_true(three_us * 5u <= one_us * 2u);
}

/* Who is done helps the slow one: 400, 200 and 40 kbit/s are 640 together, 1.6 times as quick as
 * 400 alone; shares that stay with whom they were given to would take 3.3 times as long as that. */
static void test_a_slow_peer_holds_nobody_up_for_long(void **state)
{
    (void)state;
    static const uint32_t uneven[] = {400000, 400000, 200000, 40000};
    static const uint32_t all[] = {400000, 400000, 400000, 400000};
    uint64_t fast_us = took_us(1, all), uneven_us = took_us(3, uneven);
    assert_true(uneven_us * 5u <= fast_us * 4u);
}

/* Whoever dies, after any number of its messages: the others give its share. */
static void test_a_peer_that_dies_is_made_up_for(void **state)
{
    (void)state;
    uint32_t moved = 0, given_back = 0;
    for (uint32_t k = 0; k < 30u; k++) {
        struct world *w = star(PEERS);
        uint32_t of[PEERS + 1u], dead = k % PEERS + (k % PEERS != 0);
        char drop[16];
        world_start(w);
        begin(w);
        world_until(w, is_pulling, 1000000);
        const struct uw_node_state *s = w->nodes[1].node.state;
        bool pulls = s->membership.members[s->pull.first.member].station == dead;
        snprintf(drop, sizeof drop, "%u-", (unsigned)(w->nodes[dead].emulated.out.seen_n + k));
        struct uw_impairment dies = w->impairment;
        dies.drop = drop;
        assert_int_equal(uw_link_emulated_impair(&w->nodes[dead].emulated, &dies, NULL), UW_OK);
        world_until(w, is_over, 200000000);
        count(w, of, false);
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_CUT], 0);
        assert_int_equal(world_counters(w, 1).pulled_bytes, 4u * SIZE_N);
        moved += pulls && w->nodes[1].events[UW_NODE_PULL_MOVED] != 0;
        given_back += !pulls && of[dead] < SIZE_N / PEERS / 2u;
        world_free(w);
    }
    assert_true(moved > 3u && given_back > 3u);
}

static void test_all_peers_dead_cut_the_pull(void **state)
{
    (void)state;
    struct world *w = star(PEERS);
    uint32_t of[PEERS + 1u];
    w->impairment = (struct uw_impairment){.delay_us = 1000, .rate_bits_per_s = 400000};
    world_start(w);
    begin(w);
    world_until(w, is_pulling, 1000000);
    world_run(w, 30000);
    world_down(w, 0);
    world_down(w, 2);
    world_down(w, 3);
    world_until(w, is_over, 200000000);
    count(w, of, true);
    assert_true(of[1] != 0 && of[1] != SIZE_N);
    assert_int_equal(w->nodes[1].events[UW_NODE_PULL_CUT], 1);
    world_free(w);
}

/* One peer's chunks are no numbers, or far from all: it is left alone, the others give the rest. */
static void test_a_bad_peer_is_named_and_made_up_for(void **state)
{
    (void)state;
    static const float bad[] = {NAN, 1e6f};
    for (uint32_t i = 0; i < 2u * PEERS; i++) {
        struct world *w = star(PEERS);
        uint32_t of[PEERS + 1u], who = i / 2u + (i / 2u != 0);
        world_start(w);
        world_until(w, b_knows_all, 30000000);
        for (uint32_t k = 0; k < SIZE_N; k++) {
            w->nodes[who].snapshot.data[k] = bad[i % 2u];
        }
        (void)pull(w);
        world_run(w, 100000);
        count(w, of, bad[i % 2u] == 1e6f);      /* an outlier is found when it was to be mixed */
        assert_int_equal(of[who], 0);
        assert_true(of[1] < SIZE_N / PEERS);
        const struct uw_node_state *s = w->nodes[1].node.state;
        for (uint32_t k = 1; k < s->membership.members_n; k++) {
            const struct uw_member *m = &s->membership.members[k];
            assert_int_equal(s->peers[k].refused_n != 0, m->station == who);
        }
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_CUT], 0);
        world_free(w);
    }
}

/* Neither b nor the others learn: of each peer every share is mixed in once, then none; but for one
 * that was passed on in the middle, which is remembered of nobody. */
static void test_what_a_peer_showed_is_not_pulled_again(void **state)
{
    (void)state;
    for (uint32_t slices = 1; slices <= 5u; slices += 4u) {
        struct world *w = star(2);
        w->config.slices_n = slices;
        world_start(w);
        world_until(w, b_knows_all, 30000000);
        w->nodes[1].trains = true;
        w->nodes[1].train_at_us = w->now_us;
        world_run(w, 30000000);
        struct uw_node_counters c = world_counters(w, 1);
        uint64_t before = c.pulled_bytes;
        world_run(w, 10000000);
        c = world_counters(w, 1);
        printf("%u slices: %u pulls, %u stale, %.2f models\n", (unsigned)slices,
               (unsigned)c.pulls_done, (unsigned)c.pulls_stale, (double)before / 4.0 / SIZE_N);
        assert_int_equal(c.pulled_bytes, before);
        assert_true(c.pulls_stale > 50u);
        assert_true(before >= 4u * SIZE_N * PEERS && before <= 4u * SIZE_N * (PEERS + 1u));
        world_free(w);
    }
}

/* Short forms, where what a chunk leaves out depends on whom it is from. */
static void test_several_peers_over_radio_frames(void **state)
{
    (void)state;
    for (uint32_t lossy = 0; lossy < 2; lossy++) {
        struct radio_world *r = radio_world_new(PEERS + 1u, 3000, lossy != 0 ? 0.2f : 0.0f);
        struct world *w = r->w;
        uint32_t of[PEERS + 1u];
        w->config.pull_peers = PEERS;
        w->nodes[1].trains = false;
        for (uint32_t i = 0; i < w->n; i++) {
            w->nodes[i].slowness = i != 1u ? 1000000u : 1u;
        }
        world_start(w);
        (void)pull(w);
        count(w, of, false);
        assert_true(of[0] != 0 && of[2] != 0 && of[3] != 0);
        assert_int_equal(world_counters(w, 1).pulled_bytes, 4u * 3000u);
        radio_world_free(r);
    }
}

static void test_a_newcomer_asks_one(void **state)
{
    (void)state;
    struct world *w = star(PEERS);
    world_up(w, 0);
    world_up(w, 2);
    world_up(w, 3);
    for (uint32_t i = 0; i < w->n; i++) {
        w->nodes[i].slowness = 1;
    }
    world_run(w, 3000000);
    struct uw_node_config c = world_config(w, 1);
    c.newcomer = true;
    world_up_with(w, 1, c);
    w->nodes[1].trains = true;
    w->nodes[1].train_at_us = w->now_us;
    world_until(w, is_over, 30000000);
    assert_int_equal(w->nodes[1].events[UW_NODE_ADOPTED], 1);
    assert_int_equal(world_counters(w, 1).pulled_bytes, 4u * SIZE_N);
    world_free(w);
}

static void test_what_cannot_be_is_refused(void **state)
{
    static const struct {
        uint32_t peers, slices_n;
        enum uw_node_mode mode;
        const char *schedule;
        bool no_part;
    } wrong[] = {{9, 1, UW_NODE_GOSSIP, NULL, false},
                 {2, 1, UW_NODE_ALLREDUCE, NULL, false},
                 {2, 1, UW_NODE_GOSSIP, "hypercube", false},
                 {4, 9, UW_NODE_GOSSIP, NULL, false},
                 {2, 1, UW_NODE_GOSSIP, NULL, true}};
    (void)state;
    struct world *w = star(1);
    world_start(w);
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct uw_node_config c = world_config(w, 0);
        struct uw_node_parts parts = uw_node_parts_all;
        struct uw_error err = {0};
        size_t bytes;
        c.link = &w->nodes[0].emulated.link;
        c.pull_peers = wrong[i].peers;
        c.slices_n = wrong[i].slices_n;
        c.mode = wrong[i].mode;
        c.schedule = wrong[i].schedule != NULL ? uw_peer_schedule_find(wrong[i].schedule) : NULL;
        parts.lanes = wrong[i].no_part ? NULL : parts.lanes;
        c.parts = &parts;
        assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
        assert_non_null(strstr(err.text, wrong[i].no_part ? "lanes" : "pull_peers"));
    }
    world_free(w);
}

/* Chunks that go to and fro, asked for or not, are each here once in the end. */
static void test_chunks_change_hands(void **state)
{
    (void)state;
    static uint64_t memory[2][4096];
    struct uw_pull pulls[2];
    struct uw_rng rng;
    const struct uw_path path = {.rtt_us = 1000, .floats_per_us = 1.0f};
    uw_rng_seed(&rng, uw_test_seed(7));
    for (uint32_t k = 0; k < 2; k++) {
        struct uw_arena arena;
        uw_arena_init(&arena, memory[k], sizeof memory[k]);
        assert_int_equal(uw_pull_place(&pulls[k], &arena, 1000, 10, 64), UW_OK);
        uw_pull_start(&pulls[k], 1, 1000, 10, &path, 1);
        uw_pull_only(&pulls[k], 50u * k, 50);
    }
    uint32_t arrived = 0, given = 0;
    for (uint64_t now_us = 1000; arrived < 100u; now_us += 500) {
        assert_true(now_us < 10000000u);
        uint32_t k = uw_rng_below(&rng, 2);
        struct uw_want want;
        if (uw_pull_next(&pulls[k], 64, now_us, &want)) {
            for (uint64_t rest = want.wanted; rest != 0; rest &= rest - 1u) {
                uint32_t at = (want.base + uw_lowest_bit(rest)) * 10u;
                if (uw_rng_below(&rng, 3) == 0 || uw_pull_check(&pulls[k], 1, at, 10) != UW_OK) {
                    continue;
                }
                uw_pull_arrived(&pulls[k], want.seq, at, now_us + 1u);
                arrived++;
            }
        }
        given += uw_pull_give(&pulls[k], &pulls[1u - k], uw_rng_below(&rng, 8),
                              uw_rng_below(&rng, 2) != 0, now_us);
        assert_int_equal(pulls[0].chunks - pulls[0].have_chunks + pulls[1].chunks -
                             pulls[1].have_chunks, 100u - arrived);
        assert_true(pulls[0].out_chunks <= 100u && pulls[1].out_chunks <= 100u);
    }
    assert_true(given > 10u && uw_pull_complete(&pulls[0]) && uw_pull_complete(&pulls[1]));
    assert_int_equal(pulls[0].out_chunks + pulls[1].out_chunks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_element_is_mixed_once_and_all_peers_give),
        cmocka_unit_test(test_slow_links_add_up),
        cmocka_unit_test(test_a_slow_peer_holds_nobody_up_for_long),
        cmocka_unit_test(test_a_peer_that_dies_is_made_up_for),
        cmocka_unit_test(test_all_peers_dead_cut_the_pull),
        cmocka_unit_test(test_a_bad_peer_is_named_and_made_up_for),
        cmocka_unit_test(test_what_a_peer_showed_is_not_pulled_again),
        cmocka_unit_test(test_several_peers_over_radio_frames),
        cmocka_unit_test(test_a_newcomer_asks_one),
        cmocka_unit_test(test_what_cannot_be_is_refused),
        cmocka_unit_test(test_chunks_change_hands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
