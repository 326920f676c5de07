/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of an algorithm from what was measured, against every algorithm's time with the engine
 * and the links that ship, on virtual time: networks are probed first, nothing is given. Without
 * arguments a part of the grid, whose times are asserted; with --full all of it, a line a cell. The
 * quick part (UWASA_TEST_QUICK) has a fifth of the numbers of ranks (emulated, a tenth) and no
 * vector above 256 KiB. */
#include "test_support.h"

#include "allreduce_world.h"
#include "base/bits.h"
#include "netmodel/network_probe.h"
#include "wire/part.h"

#define NETWORKS_N 3u

/* A station's link carries its sender's rate; frames of the radio are those of 802.15.4, 127 bytes
 * with 25 of its own and 6 of preamble, and a channel access with its acknowledgement. */
static const struct world_network networks[NETWORKS_N] = {
    {.name = "1 Gbit/s, 5 ms", .rate_bits_per_s = 1000000000, .delay_us = 5000,
     .mtu_bytes = 1400, .overhead_bytes = 66, .queue_n = 1024},
    {.name = "10 Mbit/s, 20 ms", .rate_bits_per_s = 10000000, .delay_us = 20000,
     .mtu_bytes = 1400, .overhead_bytes = 66, .queue_n = 64},
    {.name = "250 kbit/s radio", .rate_bits_per_s = 250000, .delay_us = 500, .mtu_bytes = 102,
     .overhead_bytes = 31, .queue_n = 4, .shared = true, .access_us = 2000},
};

static struct uw_network_probe probes[WORLD_RANKS_MAX];

static void take_probe(struct allreduce_world *w, uint32_t rank, uint32_t from,
                       const struct uw_part *part)
{
    uw_network_probe_receive(&probes[rank], from, part, w->now_us);
}

static uint64_t run_probe(struct allreduce_world *w, uint32_t rank)
{
    return uw_network_probe_run(&probes[rank], w->now_us);
}

static bool is_probed(const struct allreduce_world *w)
{
    uint32_t on_their_way = 0;
    for (uint32_t i = 0; i < w->p; i++) {
        const struct uw_emulated_path *out = &w->ranks[i].link.out;
        on_their_way += out->count + out->waiting_n;
    }
    return probes[0].done && on_their_way == 0;
}

/* Returns the seconds it took. */
static double probe(struct allreduce_world *w, struct uw_network_fit *fit)
{
    static uint8_t memory[WORLD_RANKS_MAX][16384];
    uint64_t from_us = w->now_us;
    uw_network_fit_init(fit, w->chunk_n, UW_PART_HEAD_BYTES, uw_allreduce_early_n(&w->ranks[0].a));
    for (uint32_t i = 0; i < w->p; i++) {
        struct uw_arena arena;
        const struct uw_network_probe_config c = {.ranks_max = WORLD_RANKS_MAX,
                                                  .chunk_n = w->chunk_n, .send = world_send,
                                                  .arg = &w->ranks[i]};
        uw_arena_init(&arena, memory[i], sizeof memory[i]);
        assert_int_equal(uw_network_probe_place(&probes[i], &arena, &c), UW_OK);
        uw_network_probe_begin(&probes[i], 5, w->p, i, w->now_us);
        w->ranks[i].engine_us = 0;
    }
    w->take = take_probe;
    w->run = run_probe;
    world_run(w, is_probed);
    assert_true(uw_network_fit_reports(fit, probes[0].reports, w->p));
    fit->cost.reduce_s = 0.0;       /* adding takes no virtual time */
    w->run = NULL;
    return (double)(w->now_us - from_us) * 1e-6;
}

/* What came of a part of the grid. */
struct tally {
    uint32_t cells, near_best, near_predicted;  /* within 10 %; the chosen one's within 20 % */
    uint32_t any_near_best;                     /* with sweeps, whose ranks end within rounding */
    uint32_t times, near_times;                 /* every algorithm's time within 20 % */
    double worst_choice, worst_any_choice, worst_prediction;
};

static double off(double predicted, double measured)
{
    return fabs(predicted / measured - 1.0);
}

/* How much longer the chosen one of the first `kinds` algorithms takes than the best. */
static double regret_of(const double *seconds, int kinds, enum uw_allreduce_kind choice)
{
    double best = INFINITY;
    for (int i = 0; i < kinds; i++) {
        best = seconds[i] < best ? seconds[i] : best;
    }
    return seconds[choice] / best - 1.0;
}

/* One cell: every algorithm. */
static void try_size(struct allreduce_world *w, const struct uw_network_fit *fit, uint32_t n,
                     bool print, struct tally *t)
{
    double at[2 * WORLD_RANKS_MAX], predicted, seconds[UW_ALLREDUCE_KINDS_N];
    enum uw_allreduce_kind choice = uw_network_choose(fit, w->p, n, true, at, &predicted);
    enum uw_allreduce_kind any = uw_network_choose(fit, w->p, n, false, at, NULL);
    uint64_t rtt_us;
    float floats_per_us;
    uw_network_path(fit, w->p, &rtt_us, &floats_per_us);
    if (print) {
        printf("%s, %2u ranks, %8u bytes: %s predicted %.6g:", w->network.name, w->p, 4 * n,
               uw_allreduce_name(choice), predicted);
    }
    for (int i = 0; i < UW_ALLREDUCE_KINDS_N; i++) {
        enum uw_allreduce_kind kind = (enum uw_allreduce_kind)i;
        seconds[i] = world_round(w, kind, n, rtt_us, floats_per_us);
        double error = off(uw_network_predict(fit, kind, w->p, n, at), seconds[i]);
        t->times++;
        t->near_times += error <= 0.2 ? 1 : 0;
        if (print) {
            printf(" %s %.6g (%.1f %% off)", uw_allreduce_name(kind), seconds[i], 100.0 * error);
        }
    }
    double error = off(predicted, seconds[choice]);
    double regret = regret_of(seconds, UW_ALLREDUCE_SWEEP, choice);
    double any_regret = regret_of(seconds, UW_ALLREDUCE_KINDS_N, any);
    t->cells++;
    t->near_best += regret <= 0.1 ? 1 : 0;
    t->any_near_best += any_regret <= 0.1 ? 1 : 0;
    t->near_predicted += error <= 0.2 ? 1 : 0;
    t->worst_choice = fmax(t->worst_choice, regret);
    t->worst_any_choice = fmax(t->worst_any_choice, any_regret);
    t->worst_prediction = fmax(t->worst_prediction, error);
    if (print) {
        printf(" regret %.1f %%, of any %s %.1f %%\n", 100.0 * regret, uw_allreduce_name(any),
               100.0 * any_regret);
        fflush(stdout);
    }
}

/* Sizes from 64 bytes to `bytes`, each four times the last. */
static void try_ranks(const struct world_network *network, uint32_t p, uint32_t bytes, bool print,
                      struct tally *t)
{
    struct allreduce_world w;
    struct uw_network_fit fit;
    world_open(&w, network, p, bytes / 4u);
    double took = probe(&w, &fit);
    if (print) {
        printf("%s, %2u ranks: probed in %.3f s: latency %.4g s, message %.4g s, byte %.4g s%s\n",
               network->name, p, took, fit.cost.latency_s, fit.cost.access_s, fit.cost.byte_s,
               fit.cost.shared ? ", shared" : "");
    }
    for (uint32_t n = 16; n <= bytes / 4u; n *= 4) {
        try_size(&w, &fit, n, print, t);
    }
    world_close(&w);
}

/* Nothing is exact any more, but all ranks report and the order of size is right. */
static void test_a_probe_survives_loss_and_jitter(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NETWORKS_N; i++) {
        for (uint32_t p = 2; p <= 8; p += 3) {
            struct world_network bad = networks[i];
            struct allreduce_world w;
            struct uw_network_fit fit;
            bad.loss = 0.05f;
            bad.jitter_us = bad.delay_us / 4u;
            world_open(&w, &bad, p, 64);
            double took = probe(&w, &fit);
            const struct world_network *n = &networks[i];
            double latency_s = 1e-6 * (double)n->delay_us;
            double chunk_s = 1e-6 * (double)n->access_us +
                             8.0 * (n->mtu_bytes + n->overhead_bytes) / (double)n->rate_bits_per_s;
            if (fit.cost.shared != n->shared || took > 60.0 ||
                fit.cost.latency_s > 1.5 * latency_s + chunk_s ||
                fit.cost.latency_s < 0.8 * latency_s - chunk_s ||
                off(uw_allreduce_wire_s(&fit.cost, w.chunk_n), chunk_s) > 0.5) {
                fail_msg("%s, %u ranks, %.3f s: latency %g s, chunk %g s, shared %d", n->name, p,
                         took, fit.cost.latency_s, uw_allreduce_wire_s(&fit.cost, w.chunk_n),
                         fit.cost.shared);
            }
            world_close(&w);
        }
    }
}

static void tell(const char *name, const struct tally *t)
{
    printf("%s: of %u cells %u within 10 %% of the best (worst %.1f %%), with sweeps %u (%.1f %%); "
           "%u predicted within 20 %% (worst %.1f %%), of all algorithms %u of %u\n",
           name, t->cells, t->near_best, 100.0 * t->worst_choice, t->any_near_best,
           100.0 * t->worst_any_choice, t->near_predicted, 100.0 * t->worst_prediction,
           t->near_times, t->times);
}

static void assert_good(const char *name, const struct tally *t)
{
    tell(name, t);
    assert_true(t->near_best * 100 >= t->cells * 95);
    assert_true(t->any_near_best * 100 >= t->cells * 95);
    assert_true(t->near_predicted * 100 >= t->cells * 95);
    assert_true(t->near_times * 100 >= t->times * 95);
}

static bool is_quick(void)
{
    return getenv("UWASA_TEST_QUICK") != NULL;
}

static uint32_t largest(uint32_t bytes)
{
    return is_quick() ? uw_min_u32(bytes, 256u << 10) : bytes;
}

static void assert_good_choices(const struct world_network *network, uint32_t large_p,
                                uint32_t large_bytes, uint32_t bytes)
{
    struct tally t = {0};
    for (uint32_t p = 2; p <= WORLD_RANKS_MAX; p += uw_test_slow() ? 10 : is_quick() ? 5 : 1) {
        try_ranks(network, p, largest(p <= large_p ? large_bytes : bytes), false, &t);
    }
    assert_good(network->name, &t);
}

static void test_auto_on_a_long_fat_network(void **state)
{
    (void)state;
    assert_good_choices(&networks[0], 3, 4u << 20, 1u << 20);
}

static void test_auto_on_a_wide_area(void **state)
{
    (void)state;
    assert_good_choices(&networks[1], 3, 4u << 20, 1u << 20);
}

static void test_auto_on_a_shared_radio(void **state)
{
    (void)state;
    assert_good_choices(&networks[2], 5, 64u << 10, 16u << 10);
}

static void test_auto_knows_who_sends_slowly(void **state)
{
    struct tally t = {0};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct world_network n = networks[i];
        n.slower = 4;
        for (uint32_t p = 4; p <= 12; p += 4) {
            n.slow_rank = p / 4u;
            try_ranks(&n, p, largest(1u << 20), false, &t);
        }
    }
    assert_good("one link four times as slow", &t);
}

/* One round by the choice of the moment, which is learned from. Returns how far off it was. */
static double live_round(struct allreduce_world *w, struct uw_network_fit *fit, uint32_t n)
{
    double at[2 * WORLD_RANKS_MAX], predicted;
    uint64_t rtt_us;
    float floats_per_us;
    enum uw_allreduce_kind kind = uw_network_choose(fit, w->p, n, true, at, &predicted);
    uw_network_path(fit, w->p, &rtt_us, &floats_per_us);
    double s = world_round(w, kind, n, rtt_us, floats_per_us);
    uw_network_learn(fit, kind, w->p, n, s, at);
    return off(predicted, s);
}

static void test_auto_follows_a_network_that_changes(void **state)
{
    static const uint32_t sizes[] = {16, 4096, 65536};
    struct allreduce_world w;
    struct uw_network_fit fit;
    struct tally t = {0};
    bool doubtful = false;
    (void)state;
    world_open(&w, &networks[1], 8, 65536);
    (void)probe(&w, &fit);
    for (uint32_t i = 0; i < 12; i++) {
        assert_true(live_round(&w, &fit, sizes[i % 3]) < 0.2);
        assert_false(uw_network_is_doubtful(&fit));
    }
    for (uint32_t i = 0; i < w.p; i++) {
        const struct uw_impairment worse = {.delay_us = 45000, .rate_bits_per_s = 3000000,
                                            .overhead_bytes = 66, .rate_queue_bytes = 1u << 30};
        assert_int_equal(uw_link_emulated_impair(&w.ranks[i].link, &worse, NULL), UW_OK);
    }
    assert_true(live_round(&w, &fit, sizes[0]) > 0.5);
    for (uint32_t i = 1; i < 30; i++) {
        double error = live_round(&w, &fit, sizes[i % 3]);
        doubtful = doubtful || uw_network_is_doubtful(&fit);
        assert_true(i < 15 || error < 0.2);
    }
    assert_true(doubtful);
    for (uint32_t i = 0; i < 3; i++) {
        try_size(&w, &fit, sizes[i], false, &t);
    }
    assert_int_equal(t.near_best, 3);
    (void)probe(&w, &fit);      /* worth while: nothing is left to chance then */
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(live_round(&w, &fit, sizes[i]) < 0.1);
    }
    world_close(&w);
}

/* Slow as LoRa, and taken for a local network: what asks too early must not crowd out what it asks
 * for. */
static void test_rounds_end_on_a_channel_far_slower_than_thought(void **state)
{
    const struct world_network slow = {
        .name = "5 kbit/s radio", .rate_bits_per_s = 5000, .delay_us = 1000, .mtu_bytes = 222,
        .overhead_bytes = 20, .queue_n = 2, .shared = true, .access_us = 20000};
    struct allreduce_world w;
    struct uw_network_fit fit;
    (void)state;
    world_open(&w, &slow, 7, 1024);
    (void)probe(&w, &fit);
    assert_true(fit.cost.shared);
    for (int i = 0; i < UW_ALLREDUCE_SWEEP; i++) {
        enum uw_allreduce_kind kind = (enum uw_allreduce_kind)i;
        double at[2 * WORLD_RANKS_MAX];
        double s = uw_network_predict(&fit, kind, w.p, 1024, at);
        double unknown = world_round(&w, kind, 1024, 0, 0.0f), wrong;
        wrong = world_round(&w, kind, 1024, 2000, 25.0f);
        printf("%s: %.4g s knowing nothing, %.4g s misled, %.4g s predicted\n",
               uw_allreduce_name(kind), unknown, wrong, s);
        if (unknown > 10.0 * s || wrong > 4.0 * s) {
            fail_msg("%s: %.4g s and %.4g s instead of %.4g s", uw_allreduce_name(kind), unknown,
                     wrong, s);
        }
    }
    world_close(&w);
}

/* --full [network [first rank count [last [bytes [loss]]]]] */
static int full(int argc, char **argv)
{
    uint32_t only = argc > 2 ? (uint32_t)atoi(argv[2]) : NETWORKS_N;
    uint32_t first = argc > 3 ? (uint32_t)atoi(argv[3]) : 2;
    uint32_t last = argc > 4 ? (uint32_t)atoi(argv[4]) : WORLD_RANKS_MAX;
    uint32_t bytes = argc > 5 ? (uint32_t)atoi(argv[5]) : 64u << 20;
    float loss = argc > 6 ? (float)atof(argv[6]) : 0.0f;
    for (uint32_t i = 0; i < NETWORKS_N; i++) {
        struct tally t = {0};
        for (uint32_t p = first; p <= last && (only == NETWORKS_N || only == i); p++) {
            struct world_network n = networks[i];
            n.loss = loss;
            try_ranks(&n, p, bytes, true, &t);
        }
        tell(networks[i].name, &t);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--full") == 0) {
        return full(argc, argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_probe_survives_loss_and_jitter),
        cmocka_unit_test(test_auto_on_a_long_fat_network),
        cmocka_unit_test(test_auto_on_a_wide_area),
        cmocka_unit_test(test_auto_on_a_shared_radio),
        cmocka_unit_test(test_auto_knows_who_sends_slowly),
        cmocka_unit_test(test_rounds_end_on_a_channel_far_slower_than_thought),
        cmocka_unit_test(test_auto_follows_a_network_that_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
