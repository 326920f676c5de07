/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of a step against what one finds by hand. A product takes a second, a float on the wire
 * 1/8 s, numbers that binary fractions hold. */
#include "test_support.h"

#include "uwasa/sim_step_time.h"

#include <math.h>

static const struct uw_step_layer two[] = {
    {.forward = 1.0, .backward = 2.0, .params_n = 4},       /* 0.5 s on the wire */
    {.forward = 1.0, .backward = 2.0, .params_n = 24},      /* 3 s */
};

static struct uw_step_config config_of(const struct uw_step_layer *layers, uint32_t layers_n)
{
    return (struct uw_step_config){
        .layers = layers, .layers_n = layers_n, .nodes_n = 8, .batch_n = 1, .macs_per_s = 1.0,
        .exchange = UW_STEP_PARTNER, .network = {.latency_s = 0.25, .byte_s = 1.0 / 32.0},
        .overlap = true};
}

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * want)) {
        fail_msg("%.12g, wanted %.12g", got, want);
    }
}

static double step_of(const struct uw_step_config *c)
{
    struct uw_step_time t;
    assert_int_equal(uw_step_time(c, &t), UW_OK);
    return t.step_s;
}

static void test_one_node_computes_and_sends_nothing(void **state)
{
    (void)state;
    struct uw_step_config c = config_of(two, 2);
    struct uw_step_time t;
    c.nodes_n = 1;
    c.batch_n = 64;
    c.macs_per_s = 1e3;
    c.half_batch_n = 16.0;          /* 64 samples at 64/80 of the rate */
    assert_int_equal(uw_step_time(&c, &t), UW_OK);
    assert_near(t.step_s, 6.0 * 64 / (1e3 * 64 / 80));
    assert_near(t.compute_s, t.step_s);
    assert_true(t.network_s == 0.0 && t.sent_bytes == 0.0 && t.busiest_bytes == 0.0);
}

static void test_a_layer_without_parameters_has_nothing_to_wait_for(void **state)
{
    (void)state;
    const struct uw_step_layer layers[] = {{.forward = 1.0, .backward = 2.0}};
    struct uw_step_config c = config_of(layers, 1);
    assert_near(step_of(&c), 3.0);
}

static void test_without_overlap_times_add_up(void **state)
{
    (void)state;
    struct uw_step_config c = config_of(two, 2);
    struct uw_step_time t;
    c.overlap = false;
    assert_int_equal(uw_step_time(&c, &t), UW_OK);
    assert_near(t.network_s, 2 * 0.25 + 3.5);
    assert_near(t.step_s, 6.0 + t.network_s);
}

/* Nothing to hide behind: an overlap takes as long as the closed formulas say. */
static void test_all_network_follows_the_closed_formulas(void **state)
{
    (void)state;
    const uint32_t n = 1u << 12;
    const struct uw_step_layer layer = {.params_n = n};
    struct uw_step_config c = config_of(&layer, 1);
    c.exchange = UW_STEP_ALLREDUCE;
    c.network.reduce_s = 1.0 / 256.0;
    const double wire = n / 8.0, adds = n / 64.0, late = c.network.latency_s;
    for (uint32_t p = 2, log = 1; p <= 64; p *= 2, log++) {
        double share = (p - 1.0) / p;
        c.nodes_n = p;
        c.kind = UW_ALLREDUCE_TREE;
        assert_near(step_of(&c), 2.0 * log * (late + wire) + log * adds);
        c.kind = UW_ALLREDUCE_DOUBLING;
        assert_near(step_of(&c), log * (late + wire + adds));
        c.kind = UW_ALLREDUCE_HALVING;
        assert_near(step_of(&c), 2.0 * log * late + share * (2.0 * wire + adds));
        c.kind = UW_ALLREDUCE_RING;
        assert_near(step_of(&c), 2.0 * (p - 1) * late + share * (2.0 * wire + adds));
    }
}

/* Backward of layer 1 ends at 4; its 3 s keep the line until 7. Layer 0 is ready at 6, is sent from
 * 7 to 7.5, is here at 7.75, when the next forward begins; without any exchange it would at 6. */
static void test_two_layers_share_the_line(void **state)
{
    (void)state;
    struct uw_step_config c = config_of(two, 2);
    assert_near(step_of(&c), 7.75);
    c.asked = true;                 /* 4.25 to 7.25, to 7.75, here at 8 */
    assert_near(step_of(&c), 8.0);
    c.asked = false;
    c.network.access_s = 0.125;     /* 4 to 7.125, to 7.75, here at 8 */
    assert_near(step_of(&c), 8.0);
    c.network.access_s = 0.0;
    c.network.reduce_s = 1.0 / 64.0;    /* here at 7.25 and added at 8.75, added at 9 */
    assert_near(step_of(&c), 9.0);
}

/* In chunks of 1 s: layer 0 goes first at 6, is here at 6.75, computed at 7.75, when the last chunk
 * of layer 1 is here; so forward is done at 8.75 instead of 8. */
static void test_a_small_layer_overtakes(void **state)
{
    (void)state;
    struct uw_step_config c = config_of(two, 2);
    c.network.chunk_n = 8;
    assert_near(step_of(&c), 6.75);
    c.in_order = true;
    assert_near(step_of(&c), 7.75);
    c.in_order = false;
    c.network.chunk_n = 0;
    c.fragment_n = 8;               /* as well in fragments */
    assert_near(step_of(&c), 6.75);
    c.fragment_n = 12;              /* 4 to 5.5, to 7; then as without */
    assert_near(step_of(&c), 7.75);
}

/* What is wide enough hides everything: layer 1 has until forward comes to it. */
static void test_computing_hides_what_is_below_it(void **state)
{
    (void)state;
    const struct uw_step_layer layers[] = {{.forward = 2.0, .backward = 2.0},
                                           {.forward = 1.0, .backward = 1.0, .params_n = 30}};
    struct uw_step_config c = config_of(layers, 2);
    assert_near(step_of(&c), 6.0);  /* 3.75 s on the line and 0.25 s of latency in 4 s */
    c.network.latency_s = 0.75;
    assert_near(step_of(&c), 6.5);
}

/* Backward of layer 0 lies within the 3.75 s of the line: 2 s become 3; of forward 0.75 s of the
 * line's time are 0.5 s of its work, so it ends at 3 + 0.75 + 1.5. */
static void test_a_busy_line_slows_computing(void **state)
{
    (void)state;
    const struct uw_step_layer layers[] = {{.forward = 2.0, .backward = 2.0},
                                           {.forward = 1.0, .backward = 1.0, .params_n = 30}};
    struct uw_step_config c = config_of(layers, 2);
    c.interference = 0.5;
    assert_near(step_of(&c), 3.0 + 0.75 + 1.5 + 1.0 + 1.0);
}

static void test_neighbours_share_a_bucket(void **state)
{
    (void)state;
    const struct uw_step_layer layers[] = {{.params_n = 8}, {.forward = 1.0}, {.params_n = 8},
                                           {.params_n = 80}};
    struct uw_step_config c = config_of(layers, 4);
    struct uw_step_time t;
    c.bucket_n = 10;
    assert_int_equal(uw_step_time(&c, &t), UW_OK);
    assert_near(t.network_s, 2 * 0.25 + 96 / 8.0);
    assert_near(t.sent_bytes, 4.0 * 96);
    c.bucket_n = 0;
    assert_int_equal(uw_step_time(&c, &t), UW_OK);
    assert_near(t.network_s, 3 * 0.25 + 96 / 8.0);
}

/* Of the busiest node: tree 2 M log N, doubling M log N, halving and ring 2 M (N - 1) / N, one
 * partner M whatever N is. */
static void test_bytes_follow_the_closed_formulas(void **state)
{
    (void)state;
    const struct uw_step_layer layer = {.params_n = 1u << 12};
    const double all = 4.0 * (1u << 12);
    struct uw_step_config c = config_of(&layer, 1);
    struct uw_step_time t;
    for (uint32_t p = 2, log = 1; p <= 128; p *= 2, log++) {
        const struct {
            enum uw_allreduce_kind kind;
            double busiest, mean;
        } rows[] = {{UW_ALLREDUCE_TREE, 2 * all * log, 2 * all * (p - 1) / p},
                    {UW_ALLREDUCE_DOUBLING, all * log, all * log},
                    {UW_ALLREDUCE_HALVING, 2 * all * (p - 1) / p, 2 * all * (p - 1) / p},
                    {UW_ALLREDUCE_RING, 2 * all * (p - 1) / p, 2 * all * (p - 1) / p}};
        c.nodes_n = p;
        c.exchange = UW_STEP_ALLREDUCE;
        for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            c.kind = rows[i].kind;
            assert_int_equal(uw_step_time(&c, &t), UW_OK);
            assert_near(t.busiest_bytes, rows[i].busiest);
            assert_near(t.sent_bytes, rows[i].mean);
        }
        c.exchange = UW_STEP_PARTNER;
        assert_int_equal(uw_step_time(&c, &t), UW_OK);
        assert_near(t.busiest_bytes, all);
        assert_near(t.sent_bytes, all);
    }
}

/* Layers of 2 and of 65536 floats: each by the algorithm that suits it. */
static void test_hybrid_takes_the_sooner_one_for_each_layer(void **state)
{
    (void)state;
    const struct uw_step_layer layers[] = {{.params_n = 2}, {.params_n = 65536}};
    struct uw_step_config c = config_of(layers, 2);
    double at[2 * 8];
    c.overlap = false;
    c.exchange = UW_STEP_HYBRID;
    double want = uw_allreduce_seconds(UW_ALLREDUCE_DOUBLING, 8, 2, &c.network, at) +
                  uw_allreduce_seconds(UW_ALLREDUCE_HALVING, 8, 65536, &c.network, at);
    assert_near(step_of(&c), want);
}

static void test_speed_up_is_the_ratio_of_samples_a_second(void **state)
{
    (void)state;
    assert_near(uw_step_speed_up(1.0, 256, 1.25, 256, 64), 51.2);
    assert_near(uw_step_speed_up(1.0, 256, 0.5, 32, 64), 16.0);
}

static void test_what_is_no_step_is_refused(void **state)
{
    (void)state;
    const struct uw_step_config good = config_of(two, 2);
    struct uw_step_config bad[9];
    struct uw_step_time t;
    for (uint32_t i = 0; i < 9; i++) {
        bad[i] = good;
    }
    bad[0].layers_n = 0;
    bad[1].nodes_n = 0;
    bad[2].nodes_n = UINT16_MAX;
    bad[3].batch_n = 0;
    bad[4].macs_per_s = 0.0;
    bad[5].half_batch_n = -1.0;
    bad[6].network.shared = true;
    bad[7].exchange = UW_STEP_ALLREDUCE;
    bad[7].kind = UW_ALLREDUCE_SWEEP;
    bad[8].interference = -0.5;
    assert_int_equal(uw_step_time(&good, &t), UW_OK);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(uw_step_time(&bad[i], &t), UW_ERR_INVALID);
    }
}

static void test_a_step_without_end_is_refused(void **state)
{
    (void)state;
    const double longer[] = {2.0 * UW_STEP_SECONDS_MAX, 1e308, INFINITY};
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < 10; k++) {
            struct uw_step_config c = config_of(two, 2);
            struct uw_step_time t;
            double *value[] = {&c.network.latency_s, &c.network.byte_s, &c.network.access_s,
                               &c.half_batch_n, &c.interference};
            c.overlap = k % 2u == 0;
            c.interference = 1e-9;
            *value[k / 2u] = longer[i];
            assert_int_equal(uw_step_time(&c, &t), UW_ERR_TOOBIG);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_node_computes_and_sends_nothing),
        cmocka_unit_test(test_a_layer_without_parameters_has_nothing_to_wait_for),
        cmocka_unit_test(test_without_overlap_times_add_up),
        cmocka_unit_test(test_all_network_follows_the_closed_formulas),
        cmocka_unit_test(test_two_layers_share_the_line),
        cmocka_unit_test(test_a_small_layer_overtakes),
        cmocka_unit_test(test_computing_hides_what_is_below_it),
        cmocka_unit_test(test_a_busy_line_slows_computing),
        cmocka_unit_test(test_neighbours_share_a_bucket),
        cmocka_unit_test(test_bytes_follow_the_closed_formulas),
        cmocka_unit_test(test_hybrid_takes_the_sooner_one_for_each_layer),
        cmocka_unit_test(test_speed_up_is_the_ratio_of_samples_a_second),
        cmocka_unit_test(test_what_is_no_step_is_refused),
        cmocka_unit_test(test_a_step_without_end_is_refused),
    };
    return cmocka_run_group_tests_name("step_time", tests, NULL, NULL);
}
