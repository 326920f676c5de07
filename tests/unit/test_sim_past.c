/* SPDX-License-Identifier: Apache-2.0
 *
 * A world that goes on: its clock, its totals, the steps and absences that were under way. */
#include "uwasa/sim_world.h"
#include "test_support.h"

#define SIZE_N 64u
#define NODES 4u
#define STEP_US 5000u
#define PAST_US 1000000u

static struct uw_segment segment = {.name = "w", .size_n = SIZE_N};
static struct uw_sim_device devices[NODES];
static const struct uw_sim_fleet fleet = {.devices = devices, .devices_n = NODES};

static struct uw_world_config config_of(struct uw_params *params, enum uw_world_network network)
{
    for (uint32_t i = 0; i < NODES; i++) {
        devices[i] = (struct uw_sim_device){.up_bits_per_s = 100000000, .latency_us = 500,
                                            .step_us = STEP_US, .cell = UW_SIM_NO_CELL};
    }
    return (struct uw_world_config){
        .network = network, .fleet = &fleet, .params = params, .mtu_bytes = 4096,
        .node = {.run = "sim", .rule = &uw_mix_qg, .period_steps = 4, .seed = 1},
        .past = {.trained_us = PAST_US, .sent_bytes = 12345, .counters = {.pulls_done = 7}}};
}

static void open_world(struct uw_world *w, const struct uw_world_config *c)
{
    struct uw_error err = {.text = ""};
    if (uw_world_open(w, c, &err) < 0) {
        fail_msg("%s", err.text);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        w->nodes[i].x[0] = (float)(i + 1u);
    }
    assert_int_equal(uw_world_meet(w, 60000000u), UW_OK);
}

static const enum uw_world_network networks[] = {UW_WORLD_EVENTS, UW_WORLD_FORMULA};

static void test_a_world_that_goes_on_has_its_time_and_totals(void **state)
{
    (void)state;
    float x[SIZE_N] = {0.0f};
    struct uw_params params = {
        .x = x, .size_n = SIZE_N, .segments = &segment, .segments_n = 1, .hash = 7};
    for (size_t k = 0; k < 2; k++) {
        static const uint64_t left_us[NODES] = {4000, 1000, UINT64_MAX, 0};
        static const uint32_t order[] = {3, 1, 0};
        struct uw_world_config c = config_of(&params, networks[k]);
        struct uw_world w;
        c.past.left_us = left_us;
        open_world(&w, &c);
        assert_int_equal(w.now_us - w.start_us, PAST_US);
        assert_int_equal(uw_world_sent_bytes(&w), 12345);
        assert_int_equal(uw_world_counters(&w).pulls_done, 7);
        for (size_t i = 0; i < 3; i++) {    /* who was nearest to the end of a step comes first */
            struct uw_world_node *n = uw_world_next(&w);
            assert_int_equal(n->place, order[i]);
            assert_int_equal(w.now_us - w.start_us, PAST_US + left_us[n->place]);
            assert_true(n->x[0] == (float)(n->place + 1u));
            const struct uw_node_progress p = {.step = 9, .lr = 0.1f};
            assert_true(uw_world_trained(&w, n, &p, 0) >= 0);
        }
        for (uint32_t i = 0; i < 60; i++) {     /* the one that has ended does no more */
            struct uw_world_node *n = uw_world_next(&w);
            const struct uw_node_progress p = {.step = 10u + i / 3u, .lr = 0.1f};
            assert_true(n->place != 2);
            assert_true(uw_world_trained(&w, n, &p, 0) >= 0);
        }
        assert_true(uw_world_counters(&w).pulls_done > 7);
        assert_true(uw_world_sent_bytes(&w) > 12345);
        uw_world_close(&w);
    }
}

/* Without a word about steps all of them begin, whatever is behind the world. */
static void test_a_world_that_goes_on_may_begin_all_steps(void **state)
{
    (void)state;
    float x[SIZE_N] = {0.0f};
    struct uw_params params = {
        .x = x, .size_n = SIZE_N, .segments = &segment, .segments_n = 1, .hash = 7};
    for (size_t k = 0; k < 2; k++) {
        struct uw_world_config c = config_of(&params, networks[k]);
        struct uw_world w;
        open_world(&w, &c);
        assert_int_equal(w.now_us - w.start_us, PAST_US);
        assert_true(w.start_us <= w.now_us);
        assert_non_null(uw_world_next(&w));
        assert_int_equal(w.now_us - w.start_us, PAST_US + STEP_US);
        uw_world_close(&w);
    }
}

/* An absence that is over is no absence, one that lasts does, one that comes will. */
static void test_a_world_that_goes_on_knows_its_absences(void **state)
{
    (void)state;
    static const struct uw_sim_absence over[] = {{100, PAST_US / 2, false}};
    static const struct uw_sim_absence lasts[] = {{100, 200, false},
                                                  {PAST_US - 1000, PAST_US + 7000, false}};
    static const struct uw_sim_absence comes[] = {{PAST_US + 1000, PAST_US + 9000, false}};
    /* what is left of a step holds the rest of the absence */
    static const uint64_t left_us[NODES] = {3000, 3000, 9000, 3000};
    static const uint64_t ends_us[NODES] = {3000, 3000, 9000, 3000 + 8000};
    float x[SIZE_N] = {0.0f};
    struct uw_params params = {
        .x = x, .size_n = SIZE_N, .segments = &segment, .segments_n = 1, .hash = 7};
    struct uw_world_config c = config_of(&params, UW_WORLD_EVENTS);
    struct uw_world w;
    devices[1].absences = over;
    devices[1].absences_n = 1;
    devices[2].absences = lasts;
    devices[2].absences_n = 2;
    devices[3].absences = comes;
    devices[3].absences_n = 1;
    c.past.left_us = left_us;
    open_world(&w, &c);
    for (uint32_t i = 0; i < NODES; i++) {
        struct uw_world_node *n = uw_world_next(&w);
        const struct uw_node_progress p = {.step = 9, .lr = 0.1f};
        assert_int_equal(w.now_us - w.start_us, PAST_US + ends_us[n->place]);
        assert_true(uw_world_trained(&w, n, &p, 0) >= 0);
        n->train_at_us = UINT64_MAX;
    }
    assert_null(uw_world_next(&w));
    uw_world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_world_that_goes_on_has_its_time_and_totals),
        cmocka_unit_test(test_a_world_that_goes_on_may_begin_all_steps),
        cmocka_unit_test(test_a_world_that_goes_on_knows_its_absences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
