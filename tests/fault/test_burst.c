/* SPDX-License-Identifier: Apache-2.0
 *
 * A board whose controller can receive so much at once, and looks at it only now and then. Some
 * count bytes, some frames, however small. */
#include "fault/gossip_world.h"

#define SIZE_N 60000u               /* 199 chunks */
#define BURST_BYTES 8192u
#define BURST_N 9u
#define SMALL_BYTES 256u            /* 32 such fit its bytes */
#define PAUSE_US 3000u

struct outcome {
    uint64_t us, lost_n;            /* of a pull; messages that did not fit, in all pulls */
    uint32_t again_n;
};

static uint32_t pulls_n;

static bool has_pulled(struct world *w)
{
    return world_counters(w, 1).pulls_done >= pulls_n;
}

/* small: the other's link carries short messages only. */
static struct outcome pull(bool tells, uint64_t delay_us, uint32_t n, bool small)
{
    struct world *w = world_new(2, small ? SIZE_N / 10u : SIZE_N, 0);
    struct world_node *board = &w->nodes[1];
    w->config.rule = &uw_mix_none;
    w->config.period_steps = 1;
    w->impairment.delay_us = delay_us;      /* towards the board */
    w->nodes[0].mtu_bytes = small ? SMALL_BYTES : 0;
    world_up(w, 0);
    w->impairment.delay_us = 0;
    board->burst_bytes = BURST_BYTES;
    board->burst_n = BURST_N;
    board->keeps_burst = !tells;
    board->pause_us = PAUSE_US;
    world_up(w, 1);
    pulls_n = 1;
    world_until(w, has_pulled, 60000000);
    pulls_n = n;
    uint64_t from_us = w->now_us;
    world_until(w, has_pulled, 60000000);
    const struct uw_node_counters c = world_counters(w, 1);
    const struct outcome o = {.us = (w->now_us - from_us) / (n - 1u),
                              .lost_n = board->emulated.stats.overflow_n,
                              .again_n = c.chunks_again};
    assert_int_equal(c.pulls_cut, 0);
    world_free(w);
    return o;
}

static void test_link_that_tells_its_room_loses_nothing_and_fills_it(void **state)
{
    (void)state;
    for (uint64_t delay_us = 0; delay_us <= 4000u; delay_us += 2000u) {
        struct outcome o = pull(true, delay_us, 5, false);
        /* Five chunks, one less than fit, whenever the board looks and the answers are here. */
        uint64_t turn_us = (delay_us + PAUSE_US - 1u) / PAUSE_US * PAUSE_US;
        turn_us = turn_us > PAUSE_US ? turn_us : PAUSE_US;
        uint64_t least_us = 199u / 5u * turn_us;
        print_message("delay %u us: %u us a pull, at best %u; %u lost\n", (unsigned)delay_us,
                      (unsigned)o.us, (unsigned)least_us, (unsigned)o.lost_n);
        assert_int_equal(o.lost_n, 0);
        assert_int_equal(o.again_n, 0);
        assert_true(o.us <= least_us + least_us / 4u);
    }
}

static void test_link_that_counts_frames_is_not_overrun_by_small_ones(void **state)
{
    (void)state;
    struct outcome o = pull(true, 1000, 5, true);
    print_message("small: %u us a pull, %u lost\n", (unsigned)o.us, (unsigned)o.lost_n);
    assert_int_equal(o.lost_n, 0);
    assert_int_equal(o.again_n, 0);
}

static void test_link_that_does_not_tell_loses_and_repairs(void **state)
{
    (void)state;
    struct outcome o = pull(false, 1000, 5, false);
    print_message("not told: %u us a pull, %u lost\n", (unsigned)o.us, (unsigned)o.lost_n);
    assert_true(o.lost_n > 0);
    assert_true(o.again_n >= o.lost_n / 2u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_link_that_tells_its_room_loses_nothing_and_fills_it),
        cmocka_unit_test(test_link_that_counts_frames_is_not_overrun_by_small_ones),
        cmocka_unit_test(test_link_that_does_not_tell_loses_and_repairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
