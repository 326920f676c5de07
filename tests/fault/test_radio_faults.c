/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong in a radio cell, on virtual time: everybody goes on, and every parameter is an
 * old or a mixed one. UWASA_TEST_TALK=1 tells what happened. */
#include "fault/radio_world.h"
#include "fault/trouble.h"

#include "unit/memory_storage.h"

#define SIZE_N 1000u                /* 40 frames */
#define NODES 4u
#define S 1000000u
#define PLACE 16.0f                 /* parameters next to each other differ by this */
#define NARROWEST 62u               /* 51 for secure frames, 8 floats a chunk */

/* Mixes of 1 .. n, each at its own place; of the first nodes_n. */
static void expect_mixed_of(struct world *w, uint32_t nodes_n)
{
    for (uint32_t i = 0; i < nodes_n; i++) {
        for (uint32_t k = 0; k < w->size_n; k++) {
            float x = w->nodes[i].x[k] - PLACE * (float)k;
            if (!(x >= 0.99f && x <= (float)w->n + 0.01f)) {
                fail_msg("parameter %u of node %u is %f", (unsigned)k, (unsigned)i, (double)x);
            }
        }
    }
}

static void expect_mixed(struct world *w)
{
    expect_mixed_of(w, w->n);
}

/* Each node that is up and may send completes two pulls and two rounds more. */
static void expect_progress(struct world *w, uint64_t limit_us)
{
    uint32_t rounds[WORLD_MAX], pulls[WORLD_MAX];
    uint64_t until_us = w->now_us + limit_us;
    for (uint32_t i = 0; i < w->n; i++) {
        rounds[i] = w->nodes[i].rounds + 2u;
        pulls[i] = w->nodes[i].up ? world_counters(w, i).pulls_done + 2u : 0;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        struct world_node *n = &w->nodes[i];
        while (n->up && !n->paused &&
               (n->rounds < rounds[i] || world_counters(w, i).pulls_done < pulls[i])) {
            if (w->now_us > until_us) {
                fail_msg("node %s makes no progress within %.0f s: %u of %u pulls", n->name,
                         (double)limit_us / 1e6, (unsigned)world_counters(w, i).pulls_done,
                         (unsigned)pulls[i]);
            }
            world_run(w, S / 10u);
        }
    }
    expect_mixed(w);
}

/* Each node that is up averages by broadcast once more, and exactly. */
static void expect_averages(struct world *w, uint64_t limit_us)
{
    uint32_t done[WORLD_MAX];
    uint64_t until_us = w->now_us + limit_us;
    for (uint32_t i = 0; i < w->n; i++) {
        done[i] = world_counters(w, i).averages_done;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        while (world_counters(w, i).averages_done == done[i]) {
            if (w->now_us > until_us) {
                fail_msg("node %s does not average exactly within %.0f s, %u were cut",
                         w->nodes[i].name, (double)limit_us / 1e6,
                         (unsigned)world_counters(w, i).averages_cut);
            }
            world_run(w, S / 10u);
        }
    }
    expect_mixed(w);
}

/* Within two minutes all is as it was. */
static void expect_recovery(struct world *w)
{
    world_until(w, world_all_know_all, 60 * S);
    expect_progress(w, 60 * S);
}

static void set_up(struct radio_world *r)
{
    struct world *w = r->w;
    w->train_us = 20000;
    for (uint32_t i = 0; i < w->n; i++) {
        w->nodes[i].progress.lr = 0.0f;
        for (uint32_t k = 0; k < w->size_n; k++) {
            w->nodes[i].x[k] += PLACE * (float)k;
        }
    }
}

static struct radio_world *cell(uint32_t n, float loss)
{
    struct radio_world *r = radio_world_new(n, SIZE_N, loss);
    set_up(r);
    world_start(r->w);
    world_until(r->w, world_all_know_all, 60 * S);
    expect_progress(r->w, 60 * S);
    return r;
}

/* Run until node i is in the middle of a pull. Returns whom it asks. */
static uint32_t in_mid_pull(struct world *w, uint32_t i)
{
    struct uw_node_state *s = w->nodes[i].node.state;
    const struct uw_pull *t = &s->pull.first.transfer;
    for (uint32_t k = 0; k < 1000000u; k++) {
        if (t->active && t->have_chunks > t->chunks / 4u && t->have_chunks < t->chunks / 2u) {
            return (uint32_t)(uw_node_pull_member(s)->name[0] - 'a');
        }
        world_tick(w);
    }
    fail_msg("node %u never pulls", (unsigned)i);
    return 0;
}

static void test_a_bad_channel_only_slows(void **state)
{
    (void)state;
    static const struct uw_impairment bad[] = {
        {.loss = 0.2f}, {.duplicate = 0.3f}, {.corrupt = 0.2f},
        {.reorder = 0.3f, .delay_us = 1000, .jitter_us = 3000, .reorder_us = 20000},
        {.loss = 0.1f, .duplicate = 0.1f, .corrupt = 0.1f, .reorder = 0.1f, .reorder_us = 50000}};
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct radio_world *r = radio_world_new(NODES, SIZE_N, 0.05f);
        set_up(r);
        r->w->impairment = bad[i];
        world_start(r->w);
        world_until(r->w, world_all_know_all, 60 * S);
        expect_progress(r->w, 120 * S);
        radio_world_free(r);
    }
}

static void test_another_peer_finishes_the_pull_of_one_that_crashed(void **state)
{
    (void)state;
    struct radio_world *r = cell(NODES, 0.05f);
    struct world *w = r->w;
    for (uint32_t k = 0; k < 5; k++) {
        uint32_t cut = world_counters(w, 1).pulls_cut, gone = in_mid_pull(w, 1);
        uint32_t before = w->nodes[1].events[UW_NODE_PULL_MOVED];
        world_down(w, gone);
        expect_progress(w, 60 * S);
        assert_true(w->nodes[1].events[UW_NODE_PULL_MOVED] > before);
        assert_int_equal(world_counters(w, 1).pulls_cut, cut);
        world_up(w, gone);
        expect_recovery(w);
    }
    radio_world_free(r);
}

static void test_a_peer_that_pauses_is_passed_over_and_comes_back(void **state)
{
    (void)state;
    struct radio_world *r = cell(NODES, 0.05f);
    struct world *w = r->w;
    uint32_t gone = in_mid_pull(w, 1);
    w->nodes[gone].paused = true;
    expect_progress(w, 60 * S);
    world_run(w, 60 * S);
    assert_int_not_equal(world_state(w, 1, w->nodes[gone].name), UW_MEMBER_ALIVE);
    w->nodes[gone].paused = false;
    expect_recovery(w);
    radio_world_free(r);
}

/* Nobody has seeds: who hears another again is known again. */
static void test_parts_of_a_cell_merge_when_they_hear_each_other(void **state)
{
    (void)state;
    struct radio_world *r = cell(6, 0.05f);
    struct world *w = r->w;
    for (uint64_t apart_us = 2 * S; apart_us <= 50 * S; apart_us *= 5) {
        trouble_part(w, 0x15);
        world_run(w, apart_us);
        expect_progress(w, 60 * S);
        trouble_heal(w);
        expect_recovery(w);
    }
    radio_world_free(r);
}

/* A board whose clock or flash went back. */
static void test_an_old_incarnation_is_taken_in(void **state)
{
    (void)state;
    struct radio_world *r = cell(NODES, 0.05f);
    struct world *w = r->w;
    for (uint32_t k = 0; k < 3; k++) {
        struct uw_node_config c = world_config(w, 2);
        c.incarnation = 3u - k;
        world_down(w, 2);
        world_run(w, k * 20 * S);
        world_up_with(w, 2, c);
        expect_recovery(w);
    }
    radio_world_free(r);
}

static void test_nan_of_a_peer_enters_nobody(void **state)
{
    (void)state;
    struct radio_world *r = cell(NODES, 0.05f);
    struct world *w = r->w;
    for (uint32_t k = 0; k < SIZE_N; k += 7) {
        w->nodes[3].x[k] = NAN;
    }
    world_run(w, 60 * S);
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 3; i++) {
        refused += world_counters(w, i).refused_nonfinite;
    }
    expect_mixed_of(w, 3);
    assert_true(refused != 0);
    world_down(w, 3);
    for (uint32_t k = 0; k < SIZE_N; k++) {
        w->nodes[3].x[k] = 4.0f + PLACE * (float)k;
        w->nodes[3].velocity[k] = 0.0f;
    }
    world_up(w, 3);
    expect_progress(w, 120 * S);
    radio_world_free(r);
}

/* The share of the air is used up for minutes: of one, in the middle of what it serves and of what
 * it pulls; of all. */
static void test_who_may_not_send_for_minutes_comes_back(void **state)
{
    (void)state;
    struct radio_world *r = cell(NODES, 0.05f);
    struct world *w = r->w;
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t whom = in_mid_pull(w, 1), jammed = k % 2u == 0 ? whom : 1;
        for (uint32_t i = 0; i < NODES; i++) {
            radio_jam(r, i, k == 2 || i == jammed);
        }
        world_run(w, 100 * S);
        for (uint32_t i = 0; i < NODES; i++) {
            radio_jam(r, i, false);
        }
        expect_recovery(w);
    }
    radio_world_free(r);
}

/* Who narrows: [0] who pulls, [1] whom it asks, [2] all. */
static void test_a_pull_survives_a_link_that_narrows(void **state)
{
    (void)state;
    for (uint32_t who = 0; who < 3; who++) {
        struct radio_world *r = cell(NODES, 0.05f);
        struct world *w = r->w;
        static const uint32_t sizes[] = {100, 80, NARROWEST, RADIO_FRAME_BYTES};
        for (uint32_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            uint32_t whom = in_mid_pull(w, 1);
            for (uint32_t i = 0; i < NODES; i++) {
                if (who == 2 || i == (who == 0 ? 1 : whom)) {
                    radio_narrow(r, i, sizes[k]);
                }
            }
            expect_progress(w, 90 * S);
        }
        world_until(w, world_all_know_all, 60 * S);
        radio_world_free(r);
    }
}

static void test_epochs_change_in_mid_pull(void **state)
{
    (void)state;
    struct radio_world *r = cell(NODES, 0.1f);
    struct world *w = r->w;
    uint32_t cut = world_counters(w, 1).pulls_cut;
    for (uint32_t k = 0; k < 20; k++) {
        uint32_t whom = in_mid_pull(w, 1);
        uint32_t i = k % 3u == 0 ? 1 : k % 3u == 1 ? whom : (whom + 1u) % NODES;
        assert_int_equal(uw_secure_frames_rotate(&r->links[i].frames), UW_OK);
        expect_progress(w, 60 * S);
    }
    assert_true(world_counters(w, 1).pulls_cut <= cut + 2u);    /* that lost too much by chance */
    assert_true(r->links[0].frames.epoch == 20);
    radio_world_free(r);
}

/* Power of node 1 fails at every call of its store, which it needs every few frames. */
static void test_power_fails_at_every_write_of_the_counter(void **state)
{
    (void)state;
    struct memory_storage store = {.base = {&memory_storage_ops}};
    struct radio_world *r = radio_world_new(NODES, SIZE_N, 0.05f);
    struct world *w = r->w;
    r->reserve_n = 16;
    set_up(r);
    r->links[1].store = &store.base;
    world_start(w);
    world_until(w, world_all_know_all, 60 * S);
    uint64_t id = r->links[1].frames.id, counter = 0;
    for (long call = 1; call <= 12; call++) {
        store.fail_in = call;
        for (uint32_t k = 0; k < 1000000u && store.fail_in != 0; k++) {
            world_tick(w);
        }
        assert_int_equal(store.fail_in, 0);
        uint64_t used = r->links[1].frames.counter;
        world_down(w, 1);
        world_run(w, (uint64_t)(call % 3) * S);
        world_up(w, 1);
        assert_true(r->links[1].frames.id == id && r->links[1].frames.counter >= used);
        assert_true(used > counter);
        counter = used;
        expect_recovery(w);
    }
    radio_world_free(r);
    memory_storage_release(&store);
}

/* A store that is broken for a minute: the node hears, and speaks again afterwards. */
static void test_a_store_that_is_broken_for_a_minute_ends_nothing(void **state)
{
    (void)state;
    struct memory_storage store = {.base = {&memory_storage_ops}};
    struct radio_world *r = radio_world_new(NODES, SIZE_N, 0.05f);
    struct world *w = r->w;
    r->reserve_n = 16;
    set_up(r);
    r->links[1].store = &store.base;
    world_start(w);
    world_until(w, world_all_know_all, 60 * S);
    for (uint32_t k = 0; k < 6000; k++) {
        store.fail_in = 1;
        world_run(w, 10000);
    }
    store.fail_in = 0;
    expect_recovery(w);
    radio_world_free(r);
    memory_storage_release(&store);
}

/* ---- random ---- */

static void one_event(struct radio_world *r, struct uw_rng *rng)
{
    struct world *w = r->w;
    uint32_t i = uw_rng_below(rng, w->n);
    struct world_node *n = &w->nodes[i];
    switch (uw_rng_below(rng, 8)) {
    case 0:
    case 1:
        if (n->up) {
            n->paused = false;
            world_down(w, i);
        } else {
            world_up(w, i);
        }
        return;
    case 2:
        n->paused = !n->paused;
        return;
    case 3:
        trouble_part(w, uw_rng_u32(rng));
        return;
    case 4:
        trouble_cut(w, i, uw_rng_below(rng, w->n), UW_EMULATED_OUT);
        return;
    case 5:
        if (n->up) {
            radio_jam(r, i, uw_rng_below(rng, 2) == 0);
        }
        return;
    case 6:
        if (n->up) {
            radio_narrow(r, i, NARROWEST + uw_rng_below(rng, RADIO_FRAME_BYTES - NARROWEST + 1u));
        }
        return;
    default:
        if (n->up) {
            (void)uw_secure_frames_rotate(&r->links[i].frames);
        }
        return;
    }
}

/* arg: the mode. Where nodes average by broadcast, a radio that stays narrow widens again: of 300
 * seeds there is one (1282) whose averages stay short of exact otherwise. */
static void scenario(uint64_t seed, void *arg)
{
    const enum uw_node_mode *mode = arg;
    static const struct trouble_link bad_links = {20000, 3000, {0.6f, 0.3f}, {0.3f, 0.2f},
                                                  {0.3f, 0.2f}, {0.3f, 0.1f}, false};
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    uint32_t nodes = 2u + uw_rng_below(&rng, 5);
    struct radio_world *r = radio_world_new(nodes, 30u + uw_rng_below(&rng, 1500), 0.0f);
    struct world *w = r->w;
    set_up(r);
    trouble_draw_link(&rng, &bad_links, &w->impairment);
    r->epoch_frames = uw_rng_below(&rng, 2) == 0 ? 50u + uw_rng_below(&rng, 500) : 0;
    w->config.mode = *mode;
    world_start(w);
    for (uint32_t k = uw_rng_below(&rng, 8); k > 0; k--) {
        world_run(w, uw_rng_below(&rng, 10 * S));
        one_event(r, &rng);
        expect_mixed(w);
    }
    world_run(w, uw_rng_below(&rng, 20 * S));
    trouble_heal(w);
    for (uint32_t i = 0; i < nodes; i++) {
        if (!w->nodes[i].up) {
            world_up(w, i);
        }
        radio_jam(r, i, false);
        if (*mode == UW_NODE_BROADCAST) {
            radio_narrow(r, i, RADIO_FRAME_BYTES);
        }
    }
    world_until(w, world_all_know_all, 120 * S);
    if (*mode == UW_NODE_BROADCAST) {
        expect_averages(w, 200 * S);
    } else {
        expect_progress(w, 200 * S);
    }
    radio_world_free(r);
}

static void test_random_trouble_ends_with_the_heal(void **state)
{
    enum uw_node_mode mode = UW_NODE_GOSSIP;
    (void)state;
    trouble_seeds(uw_test_slow() ? 2 : 8, scenario, &mode);
}

static void test_random_trouble_of_averages_ends_with_the_heal(void **state)
{
    enum uw_node_mode mode = UW_NODE_BROADCAST;
    (void)state;
    trouble_seeds(uw_test_slow() ? 2 : 8, scenario, &mode);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bad_channel_only_slows),
        cmocka_unit_test(test_another_peer_finishes_the_pull_of_one_that_crashed),
        cmocka_unit_test(test_a_peer_that_pauses_is_passed_over_and_comes_back),
        cmocka_unit_test(test_parts_of_a_cell_merge_when_they_hear_each_other),
        cmocka_unit_test(test_an_old_incarnation_is_taken_in),
        cmocka_unit_test(test_nan_of_a_peer_enters_nobody),
        cmocka_unit_test(test_who_may_not_send_for_minutes_comes_back),
        cmocka_unit_test(test_a_pull_survives_a_link_that_narrows),
        cmocka_unit_test(test_epochs_change_in_mid_pull),
        cmocka_unit_test(test_power_fails_at_every_write_of_the_counter),
        cmocka_unit_test(test_a_store_that_is_broken_for_a_minute_ends_nothing),
        cmocka_unit_test(test_random_trouble_ends_with_the_heal),
        cmocka_unit_test(test_random_trouble_of_averages_ends_with_the_heal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
