/* SPDX-License-Identifier: Apache-2.0
 *
 * A period that follows from what pulls take, on virtual time: the share of the time holds, also
 * when the link becomes ten times as slow in the middle. */
#include "fault/radio_world.h"
#include "node/node_state.h"

#define NODES 3u
#define SIZE_N 5000u            /* 20 kB */
#define RATE 1600000u           /* a pull of 0.1 s and a little more */
#define SHARE 0.1f
#define TRAIN_US 2000u

/* For how long each node's own pulls were under way. */
static uint64_t pulling_us[NODES];

static void run(struct world *w, uint64_t us)
{
    uint64_t until_us = w->now_us + us;
    memset(pulling_us, 0, sizeof pulling_us);
    while (w->now_us < until_us) {
        uint64_t before_us = w->now_us;
        world_tick(w);
        for (uint32_t i = 0; i < NODES; i++) {
            bool pulls = w->nodes[i].node.state->pull.first.transfer.active;
            pulling_us[i] += pulls ? w->now_us - before_us : 0;
        }
    }
}

static struct world *open_world(void)
{
    struct world *w = world_new(NODES, SIZE_N, 256);
    w->impairment = (struct uw_impairment){.rate_bits_per_s = RATE, .delay_us = 1000};
    w->config.period_share = SHARE;
    w->config.period_steps = 0;
    w->train_us = TRAIN_US;
    world_start(w);
    for (uint32_t i = 0; i < NODES; i++) {
        w->nodes[i].trains = true;
        w->nodes[i].progress.lr = 0.01f;
    }
    return w;
}

static uint32_t period_of(struct world *w, uint32_t i)
{
    return world_counters(w, i).period_steps;
}

static void slow_down(struct world *w, uint32_t times)
{
    struct uw_impairment slow = w->impairment;
    slow.rate_bits_per_s = RATE / times;
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(uw_link_emulated_impair(&w->nodes[i].emulated, &slow, NULL), UW_OK);
    }
}

/* A message is 255 bytes for 58 floats; a pull takes 87 of them, 0.11 s, two more steps for the way
 * there and back, and twice as long where two pull from one, 0.227 s. At 500 steps a second that
 * is T = 555 to 1140, and over the slow link 5550 to 11400; T that shrinks may stay a third above.
 *
 * Pulls of lengths 1 and 2, smoothed, half of what is longer and a quarter of what is shorter, are
 * taken for 9/8 of their mean at most. T is above what that wants by a third at most. So pulls have
 * 8/9 * 3/4 of their share of the time at least, 6.67 of 100 s and 40 of 600, less one that the
 * window cuts.
 *
 * A pull of ten times the length, 1.11 s or more after 0.11, counts as 4 * 0.11 at first: what is
 * expected is 0.278, then 0.694 s, and T 3470. Until then 2.3 + 1.1 + 2.8 + 1.1 s go by, and twice
 * the 1.1 where two pull from one. */
static void test_period_share_holds_and_follows_a_link_that_slows_tenfold(void **state)
{
    (void)state;
    struct world *w = open_world();
    run(w, 20000000);
    uint32_t fast[NODES];
    run(w, 100000000);
    for (uint32_t i = 0; i < NODES; i++) {
        fast[i] = period_of(w, i);
        assert_in_range(fast[i], 555, 1140);
        assert_in_range(pulling_us[i], 6440000, 11000000);
    }
    slow_down(w, 10);
    run(w, 15000000);           /* four pulls or so */
    for (uint32_t i = 0; i < NODES; i++) {
        assert_in_range(period_of(w, i), 3470, 11400);
    }
    run(w, 600000000);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_in_range(period_of(w, i), 5550, 11400);
        assert_in_range(pulling_us[i], 37700000, 60000000);
    }
    slow_down(w, 1);
    run(w, 600000000);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_in_range(period_of(w, i), 555, 1520);
    }
    world_free(w);
}

/* Over a medium that is shared the pulls of all count: three times 5000 / 58 messages of 256 bytes
 * at 1.6 Mbit/s are 0.331 s, a tenth of the time of 1656 steps. */
static void test_period_counts_the_pulls_of_all_where_the_link_is_shared(void **state)
{
    (void)state;
    struct world *w = open_world();
    for (uint32_t i = 0; i < NODES; i++) {
        w->nodes[i].emulated.link.shared = true;
    }
    run(w, 20000000);
    run(w, 100000000);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_in_range(period_of(w, i), 1656, 2000);
        assert_true(pulling_us[i] < 7000000);
    }
    world_free(w);
}

/* A duty cycle is each node's own. The rate of a link that may send half of the time has that in
 * it: three pulls then keep the medium 1.5 times as long as one takes at that rate; at a tenth of
 * the time not even once as long. */
static void test_period_counts_no_others_duty_cycle(void **state)
{
    (void)state;
    static const struct {
        uint32_t duty_ppm, least, most;
    } cases[] = {{500000, 828, 1500}, {100000, 552, 1500}};
    for (uint32_t k = 0; k < 2; k++) {
        struct world *w = open_world();
        for (uint32_t i = 0; i < NODES; i++) {
            w->nodes[i].emulated.link.shared = true;
            w->nodes[i].emulated.link.duty_ppm = cases[k].duty_ppm;
        }
        run(w, 200000000);
        for (uint32_t i = 0; i < NODES; i++) {
            assert_in_range(period_of(w, i), cases[k].least, cases[k].most);
        }
        world_free(w);
    }
}

#define MODEL_S 0.34048             /* 80 frames of 4.256 ms */

/* Eight nodes, one channel of 802.15.4. In T steps of 20 ms each of them has a model sent: what
 * that makes of the air, with T as it goes, must be there; no more than half of it again, which is
 * asked for twice, and a 64th for membership. For each node a model more or less is where the
 * window cuts. All models are 2.72 s, a tenth of the time of 1362 steps, counted to 2 %. */
static void share_a_channel(enum uw_node_mode mode, uint32_t most)
{
    struct radio_world *r = radio_world_new(8, 2000, 0.0f);
    r->w->config.mode = mode;
    r->w->config.period_share = SHARE;
    r->w->config.period_steps = 0;
    r->w->train_us = 20000;
    world_start(r->w);
    for (uint32_t i = 0; i < r->w->n; i++) {
        r->w->nodes[i].trains = true;
        r->w->nodes[i].progress.lr = 0.01f;
    }
    world_run(r->w, 100000000);
    uint64_t busy_us = r->medium.busy_us;
    uint32_t window_s = uw_test_slow() ? 200 : 600;
    uint32_t low = UINT32_MAX, high = 0;
    double models = 0.0;
    for (uint32_t k = 0; k < window_s; k++) {
        world_run(r->w, 1000000);
        for (uint32_t i = 0; i < r->w->n; i++) {
            low = period_of(r->w, i) < low ? period_of(r->w, i) : low;
            high = period_of(r->w, i) > high ? period_of(r->w, i) : high;
            models += 1.0 / (0.02 * period_of(r->w, i));
        }
    }
    double share = (double)(r->medium.busy_us - busy_us) * 1e-6 / window_s;
    double wanted = models * MODEL_S / window_s, cut = r->w->n * MODEL_S / window_s;
    printf("%.4f of the air, models' %.4f, T = %u .. %u\n", share, wanted, (unsigned)low,
           (unsigned)high);
    assert_true(low >= 1335 && high <= most);
    assert_true(share >= 0.75 * (double)SHARE && share >= wanted - cut &&
                share <= 1.5 * wanted + 1.0 / 64.0 + cut);
    radio_world_free(r);
}

/* Where many ask one node they wait for each other, and T is longer: a pull counts as four times
 * what was expected at most. It shrinks when less than three quarters would do: those are used. */
static void test_period_shares_a_radio_channel_among_all(void **state)
{
    (void)state;
    share_a_channel(UW_NODE_GOSSIP, 4 * 1362);
}

/* All arrive at one period, which follows from the models alone. */
static void test_period_shares_a_radio_channel_among_broadcasts(void **state)
{
    (void)state;
    share_a_channel(UW_NODE_BROADCAST, 1390);
}

static void test_period_without_a_share_stays(void **state)
{
    (void)state;
    struct world *w = world_new(2, SIZE_N, 256);
    w->config.period_steps = 25;
    w->train_us = TRAIN_US;
    world_start(w);
    w->nodes[0].trains = w->nodes[1].trains = true;
    w->nodes[0].progress.lr = w->nodes[1].progress.lr = 0.01f;
    world_run(w, 5000000);
    assert_int_equal(period_of(w, 0), 25);
    world_free(w);
}

static void test_period_refuses_a_share_that_is_none_and_other_modes(void **state)
{
    (void)state;
    struct world *w = world_new(2, 100, 256);
    struct uw_node_config c = world_config(w, 0);
    struct uw_link_loopback link;
    struct uw_error err;
    size_t bytes;
    assert_int_equal(uw_link_loopback_init(&link, &w->hub, 0), UW_OK);
    c.link = &link.link;
    c.period_share = SHARE;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_OK);
    static const float wrong[] = {-0.1f, 1.01f, NAN};
    for (uint32_t i = 0; i < 3; i++) {
        c.period_share = wrong[i];
        assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    }
    c.period_share = SHARE;
    c.mode = UW_NODE_ALLREDUCE;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "period_share"));
    c.mode = UW_NODE_GOSSIP;
    c.parts = NULL;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "periods"));
    uw_link_deinit(&link.link);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_period_share_holds_and_follows_a_link_that_slows_tenfold),
        cmocka_unit_test(test_period_counts_the_pulls_of_all_where_the_link_is_shared),
        cmocka_unit_test(test_period_counts_no_others_duty_cycle),
        cmocka_unit_test(test_period_shares_a_radio_channel_among_all),
        cmocka_unit_test(test_period_shares_a_radio_channel_among_broadcasts),
        cmocka_unit_test(test_period_without_a_share_stays),
        cmocka_unit_test(test_period_refuses_a_share_that_is_none_and_other_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
