/* SPDX-License-Identifier: Apache-2.0
 *
 * The closed costs of the formula network, against tables, steps and the played model. */
#include "uwasa/allreduce_cost.h"
#include "uwasa/sim_cost.h"
#include "uwasa/status.h"
#include "test_support.h"

#include <math.h>

static const char *const names[] = {
    [UW_SIM_AUTO] = "auto", [UW_SIM_BUTTERFLY] = "butterfly", [UW_SIM_HALVING] = "halving",
    [UW_SIM_RING] = "ring", [UW_SIM_RING_STUDY] = "ring-study", [UW_SIM_TREE] = "tree",
    [UW_SIM_SWEEP] = "sweep"};

#define RANKS_MAX 64u
#define SIZE_N (1u << 20)

static void assert_close(double got, double want, double slack)
{
    if (!(fabs(got - want) <= slack)) {
        fail_msg("%.9g, not %.9g", got, want);
    }
}

/* 1 Gbit/s, 5 ms, 1663370 floats: as long on the wire as the wide-area study's CNN in fp32. */
static const struct uw_sim_path wide = {.latency_s = 0.005, .byte_s = 8e-9};
#define CNN_BYTES (4.0 * 1663370.0)

static void test_milliseconds_of_the_studys_network_are_those_of_the_table(void **state)
{
    (void)state;
    static const struct {
        uint32_t ranks;
        long tree, butterfly, halving, ring, sweep;
    } rows[] = {{8, 349, 175, 123, 163, 175},  {12, 466, 291, 245, 208, 291},
                {16, 466, 233, 140, 250, 233}, {24, 582, 349, 261, 332, 349},
                {32, 582, 291, 153, 413, 291}, {64, 699, 349, 165, 735, 349}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const long want[] = {rows[i].butterfly, rows[i].halving, rows[i].ring, rows[i].tree,
                             rows[i].sweep};
        const enum uw_sim_algorithm which[] = {UW_SIM_BUTTERFLY, UW_SIM_HALVING, UW_SIM_RING,
                                               UW_SIM_TREE, UW_SIM_SWEEP};
        for (size_t k = 0; k < 5; k++) {
            double s = uw_sim_allreduce_s(which[k], rows[i].ranks, &wide, CNN_BYTES, NULL);
            assert_int_equal(lround(1e3 * s), want[k]);
        }
        enum uw_sim_algorithm best = uw_sim_cheapest(rows[i].ranks, &wide, CNN_BYTES);
        assert_int_equal(best, rows[i].ranks == 12 ? UW_SIM_RING : UW_SIM_HALVING);
    }
    assert_int_equal(lround(1e3 * uw_sim_pull_s(&wide, CNN_BYTES, true)), 63);
    assert_int_equal(lround(1e3 * uw_sim_pull_s(&wide, CNN_BYTES, false)), 58);
    /* The study's own line of the ring: a whole model in each of 2 (K - 1) steps. */
    assert_int_equal(
        lround(1e3 * uw_sim_allreduce_s(UW_SIM_RING_STUDY, 16, &wide, CNN_BYTES, NULL)), 1747);
}

static enum uw_allreduce_kind kind_of(enum uw_sim_algorithm a)
{
    return a == UW_SIM_BUTTERFLY ? UW_ALLREDUCE_DOUBLING
           : a == UW_SIM_HALVING ? UW_ALLREDUCE_HALVING
           : a == UW_SIM_RING    ? UW_ALLREDUCE_RING
           : a == UW_SIM_TREE    ? UW_ALLREDUCE_TREE
                                 : UW_ALLREDUCE_SWEEP;
}

static double sent_of(enum uw_allreduce_kind kind, uint32_t ranks)
{
    double sent = 0.0;
    for (uint32_t k = 0; k < uw_allreduce_steps_n(kind, ranks); k++) {
        for (uint32_t r = 0; r < ranks; r++) {
            sent += sizeof(float) * (double)uw_allreduce_step(kind, ranks, r, SIZE_N, k).send_n;
        }
    }
    return sent;
}

/* Every latency, byte of a link and byte of all links, of every algorithm for every K to 64: the
 * steps that ship, played through, say the same, but for some latencies that ranks who only send in
 * a step do not wait for, where K is no power of two. */
static void test_costs_are_those_of_the_steps_that_ship(void **state)
{
    (void)state;
    const struct uw_network_cost played = {.latency_s = wide.latency_s, .byte_s = wide.byte_s};
    const double bytes = sizeof(float) * (double)SIZE_N;
    double at[2 * RANKS_MAX];
    for (int a = UW_SIM_BUTTERFLY; a <= UW_SIM_SWEEP; a++) {
        const enum uw_sim_algorithm algorithm = (enum uw_sim_algorithm)a;
        if (algorithm == UW_SIM_RING_STUDY) {
            continue;
        }
        for (uint32_t p = 2; p <= RANKS_MAX; p++) {
            const enum uw_allreduce_kind kind = kind_of(algorithm);
            double sent, s = uw_sim_allreduce_s(algorithm, p, &wide, bytes, &sent);
            double same = uw_allreduce_seconds(kind, p, SIZE_N, &played, at);
            bool power = (p & (p - 1u)) == 0;
            /* A window of a ring is up to one float more than a K-th, in each of its steps. */
            double slack = 2.0 * p * sizeof(float) * wide.byte_s + 1e-12;
            double early = (s - same) / wide.latency_s;
            if (power || algorithm == UW_SIM_RING) {
                assert_close(s, same, slack);
            } else if (fabs(early - round(early)) > 1e-6 || early < -1e-6 || early > 5.0 + 1e-6) {
                fail_msg("%s of %u: %.9g s, played %.9g", names[algorithm],
                         (unsigned)p, s, same);
            }
            assert_true(fabs(sent - sent_of(kind, p)) <= 1e-9 * sent);
        }
    }
}

static void test_what_is_alone_costs_nothing_and_a_channel_carries_one_at_a_time(void **state)
{
    (void)state;
    const struct uw_sim_path air = {.latency_s = 0.001, .byte_s = 1e-6, .shared = true};
    const struct uw_sim_path endless = {.latency_s = 0.001};
    double sent = 1.0;
    assert_true(uw_sim_allreduce_s(UW_SIM_AUTO, 1, &wide, 1e6, &sent) == 0.0 && sent == 0.0);
    /* 6 ranks: 2 * 5 steps; 10 models go over the air. */
    assert_close(uw_sim_allreduce_s(UW_SIM_RING, 6, &air, 1000.0, &sent), 0.02, 1e-12);
    assert_close(sent, 10000.0, 1e-9);
    assert_close(uw_sim_allreduce_s(UW_SIM_BUTTERFLY, 8, &endless, 1e9, NULL), 0.003, 1e-12);
    assert_int_equal(uw_sim_cheapest(64, &endless, 1e9), UW_SIM_BUTTERFLY);
}

/* Choices are parsed to the place of the word. */
static void test_names_stand_in_the_order_of_algorithms(void **state)
{
    (void)state;
    char all[80] = "";
    for (int i = UW_SIM_AUTO; i <= UW_SIM_SWEEP; i++) {
        strcat(strcat(all, i != UW_SIM_AUTO ? "|" : ""), names[i]);
    }
    assert_string_equal(all, UW_SIM_ALGORITHMS);
}

static void test_a_path_has_the_least_rate_and_the_sum_of_latencies(void **state)
{
    (void)state;
    struct uw_sim_device d[] = {
        {.up_bits_per_s = 8000000, .down_bits_per_s = 80000, .latency_us = 100, .cell = 0},
        {.up_bits_per_s = 800000, .down_bits_per_s = 4000000, .latency_us = 200, .cell = 0},
        {.up_bits_per_s = 0, .down_bits_per_s = 0, .latency_us = 3000, .cell = UW_SIM_NO_CELL},
        {.up_bits_per_s = 1600000, .down_bits_per_s = 1600000, .latency_us = 10, .cell = 1}};
    struct uw_sim_cell cells[] = {
        {.bits_per_s = 2000000, .latency_us = 7, .shared = true},
        {.out_bits_per_s = 8000, .out_latency_us = 50000}};
    const struct uw_sim_fleet fleet = {.devices = d, .devices_n = 4, .cells = cells, .cells_n = 2};
    const struct {
        uint32_t from, to;
        double latency_us, bits;
        bool shared;
    } want[] = {{0, 1, 7, 2e6, true},       {1, 0, 7, 80e3, true},     {0, 2, 3100, 2e6, false},
                {2, 0, 3100, 80e3, false},  {2, 1, 3200, 2e6, false},  {2, 3, 53010, 8e3, false},
                {3, 1, 50210, 8e3, false}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const struct uw_sim_path p = uw_sim_path_between(&fleet, want[i].from, want[i].to);
        assert_close(p.latency_s * 1e6, want[i].latency_us, 1e-6);
        assert_close(8.0 / p.byte_s, want[i].bits, 1e-3);
        assert_int_equal(p.shared, want[i].shared);
    }
    const uint32_t all[] = {0, 1, 2, 3};
    struct uw_sim_path p = uw_sim_path_among(&fleet, all, 3);
    assert_close(p.latency_s * 1e6, 3200, 1e-6);
    assert_close(8.0 / p.byte_s, 80e3, 1e-3);
    p = uw_sim_path_among(&fleet, all, 4);
    assert_close(p.latency_s * 1e6, 53010, 1e-6);
    assert_close(8.0 / p.byte_s, 8e3, 1e-3);
    p = uw_sim_path_among(&fleet, all, 2);
    assert_close(p.latency_s * 1e6, 7, 1e-6);
    assert_true(p.shared);
    assert_true(uw_sim_path_among(&fleet, all + 2, 1).byte_s == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_milliseconds_of_the_studys_network_are_those_of_the_table),
        cmocka_unit_test(test_costs_are_those_of_the_steps_that_ship),
        cmocka_unit_test(test_what_is_alone_costs_nothing_and_a_channel_carries_one_at_a_time),
        cmocka_unit_test(test_names_stand_in_the_order_of_algorithms),
        cmocka_unit_test(test_a_path_has_the_least_rate_and_the_sum_of_latencies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
