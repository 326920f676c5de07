/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulator's two models of the network held against each other: what exchanges take by closed
 * formulas, and what the shipped protocols take over simulated links, on an even network where
 * nothing is in anything else's way.
 *
 * What the protocols have and the formulas leave out is counted, not allowed for by a factor:
 *
 *     an average  READY, START, PREPARED and COMMIT go before and after it: four latencies
 *     headers     28 bytes a chunk, some hundred bytes of each other message
 *     a pull      begins with windows of 4 chunks that double every round trip, up to what the path
 *                 holds; of its round trips one in eight asks at 0.6 of the rate, which is 8 % more
 *                 of the time on the wire
 *
 * The first averages still find out what the ways between their ranks carry.
 * A node's window holds a model here; a smaller one moves at most itself a local step.
 *
 * Medians over rounds are compared: now and then one waits for a timeout.
 */
#include "uwasa/sim_world.h"
#include "even_fleet.h"
#include "test_support.h"

#include <math.h>

#define MTU_BYTES 16384u
#define WINDOW_FIRST 4.0
#define SLACK_S 0.0003              /* control messages */
#define HEADERS 1.005
#define SLOW_ROUNDS 0.0834
#define CUT_S 0.00002               /* a hop takes whole microseconds */
#define PERIOD 4u
#define ROUNDS 5u
#define NODES_MAX 16u
#define PULLS_MAX (ROUNDS * NODES_MAX)

static struct uw_segment segment = {.name = "w"};
static struct uw_params params = {.segments = &segment, .segments_n = 1, .hash = 7};

/* What exchanges of a run took. */
struct took {
    struct uw_world world;
    double round_s[ROUNDS];         /* averages, from the last hand-over to the last one's end */
    double pull_s[PULLS_MAX];       /* from the question on */
    uint32_t pulls_n;
    uint64_t asked_us[NODES_MAX];
    double run_s, sent_models;
};

static void note_pull(void *arg, uint32_t place, const struct uw_node_event *event)
{
    struct took *t = arg;
    if (event->kind == UW_NODE_PULL_STARTED) {
        t->asked_us[place] = t->world.now_us;
    } else if (event->kind == UW_NODE_PULL_DONE && t->asked_us[place] > t->world.start_us &&
               t->world.start_us != 0 && t->pulls_n < PULLS_MAX) {
        t->pull_s[t->pulls_n++] = (double)(t->world.now_us - t->asked_us[place]) / 1e6;
    }
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, by_size);
    return values[n / 2u];
}

/* ROUNDS rounds of PERIOD steps of 400 ms, so that no exchange meets the next one. */
static void run(struct took *t, struct uw_world_config *c, const struct even_fleet *even)
{
    struct uw_sim_fleet fleet;
    struct uw_error err = {.text = ""};
    struct uw_world_node *n;
    uint32_t done[NODES_MAX] = {0}, round[NODES_MAX] = {0};
    uint64_t handed_us = 0;
    *t = (struct took){.run_s = 0.0};
    even_fleet_open(&fleet, even);
    c->fleet = &fleet;
    c->on_event = note_pull;
    c->event_arg = t;
    if (uw_world_open(&t->world, c, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(uw_world_meet(&t->world, 60000000u), UW_OK);
    while ((n = uw_world_next(&t->world)) != NULL) {
        bool waited = n->waits;
        done[n->place] += !waited;
        const struct uw_node_progress p = {.step = done[n->place], .lr = waited ? 0.0f : 0.1f};
        assert_true(uw_world_trained(&t->world, n, &p, 0) >= 0);
        handed_us = !waited && n->waits ? t->world.now_us : handed_us;
        if (waited && !n->waits) {
            double s = (double)(t->world.now_us - handed_us) / 1e6;
            double *longest = &t->round_s[round[n->place]++];
            *longest = s > *longest ? s : *longest;
        }
        if (done[n->place] == ROUNDS * PERIOD && !n->waits) {
            n->train_at_us = UINT64_MAX;
        }
    }
    t->run_s = (double)(t->world.now_us - t->world.start_us) / 1e6;
    t->sent_models = (double)uw_world_sent_bytes(&t->world) / (4.0 * params.size_n);
    uw_world_close(&t->world);
    even_fleet_close(&fleet);
}

static struct uw_world_config config_of(enum uw_world_network network, enum uw_node_mode mode)
{
    return (struct uw_world_config){
        .network = network,
        .params = &params,
        .node = {.run = "sim", .mode = mode, .rule = &uw_mix_none, .head_weight = 1,
                 .period_steps = PERIOD, .seed = 1, .scratch_n = params.size_n,
                 .window_bytes = 8u * params.size_n + (1u << 20),
                 .schedule = uw_peer_schedule_find("hypercube")},
        .mtu_bytes = MTU_BYTES};
}

static struct even_fleet network_of(uint32_t nodes, double bits_per_s, uint64_t latency_us)
{
    return (struct even_fleet){.devices_n = nodes, .up_bits_per_s = (uint64_t)bits_per_s,
                               .latency_us = latency_us, .step_us = 400000};
}

static double chunks_of(double bytes)
{
    return ceil(bytes / (MTU_BYTES - 28.0));
}

/* Round trips until so many chunks have been asked for. */
static double round_trips(double chunks)
{
    return chunks > 0.0 ? ceil(log2(1.0 + chunks / WINDOW_FIRST)) : 0.0;
}

struct case_of {
    enum uw_sim_algorithm simulated;
    enum uw_allreduce_kind shipped;
    uint32_t nodes, size_n;
    double bits_per_s;
    uint64_t latency_us;
};

static void compare_averages(const struct case_of *c)
{
    struct took formula, events;
    const struct even_fleet even = network_of(c->nodes, c->bits_per_s, c->latency_us);
    const struct uw_sim_path path = {.latency_s = (double)c->latency_us / 1e6,
                                     .byte_s = 8.0 / c->bits_per_s};
    params.size_n = segment.size_n = c->size_n;
    params.x = uw_test_floats(c->size_n);
    memset(params.x, 0, c->size_n * sizeof(float));
    struct uw_world_config w = config_of(UW_WORLD_FORMULA, UW_NODE_ALLREDUCE);
    w.algorithm = c->simulated;
    run(&formula, &w, &even);
    w = config_of(UW_WORLD_EVENTS, UW_NODE_ALLREDUCE);
    w.node.algorithm = &c->shipped;
    w.node.window_bytes = 1u << 20;
    w.node.scratch_n = c->shipped == UW_ALLREDUCE_DOUBLING ? c->size_n : 0;
    run(&events, &w, &even);
    double s = uw_sim_allreduce_s(c->simulated, c->nodes, &path, 4.0 * c->size_n, NULL);
    double least_s = s + 4.0 * path.latency_s - CUT_S;
    double most_s = HEADERS * s + 4.0 * path.latency_s + SLACK_S;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        assert_true(fabs(formula.round_s[r] - s) < 1e-6);
    }
    double shipped_s = median(events.round_s, ROUNDS);
    printf("%s of %u, %u bytes, %g bit/s, %u us: formula %.3f ms, events %.3f, explained %.3f to "
           "%.3f\n", uw_allreduce_name(c->shipped), (unsigned)c->nodes,
           4u * (unsigned)c->size_n, c->bits_per_s, (unsigned)c->latency_us, 1e3 * s,
           1e3 * shipped_s, 1e3 * least_s, 1e3 * most_s);
    assert_true(shipped_s >= least_s && shipped_s <= most_s);
    uw_test_release(params.x);
}

static void test_averages_take_the_formulas_time_and_four_latencies(void **state)
{
    (void)state;
    static const struct case_of all[] = {
        {UW_SIM_BUTTERFLY, UW_ALLREDUCE_DOUBLING, .size_n = 2000},
        {UW_SIM_TREE, UW_ALLREDUCE_TREE, .size_n = 25000},
        {UW_SIM_HALVING, UW_ALLREDUCE_HALVING, .size_n = 25000},
        {UW_SIM_RING, UW_ALLREDUCE_RING, .size_n = 25000},
        {UW_SIM_HALVING, UW_ALLREDUCE_HALVING, .size_n = 500000},
        {UW_SIM_RING, UW_ALLREDUCE_RING, .size_n = 500000},
        {UW_SIM_BUTTERFLY, UW_ALLREDUCE_DOUBLING, .size_n = 500000}};
    for (uint32_t i = 0; i < 4u * sizeof all / sizeof all[0]; i += uw_test_slow() ? 3 : 1) {
        struct case_of c = all[i / 4u];
        c.nodes = i % 2u != 0 ? 8 : 4;
        c.bits_per_s = i / 2u % 2u != 0 ? 1e9 : 1e8;
        c.latency_us = i / 2u % 2u != 0 ? 5000 : 1000;
        compare_averages(&c);
    }
}

/* 2 to 16 nodes, 64 kB to 8 MB, over 1 Gbit/s and 5 ms: a window that has to open would cost tens
 * of latencies. */
static void test_averages_over_latency_wait_for_no_window(void **state)
{
    (void)state;
    uint32_t largest_n = getenv("UWASA_TEST_QUICK") != NULL ? 125000 : 2000000;
    uint32_t most_n = uw_test_slow() ? 4 : NODES_MAX;
    for (uint32_t nodes = 2; nodes <= most_n; nodes *= 2u) {
        for (uint32_t size_n = 16000; size_n <= largest_n; size_n = size_n == 16000 ? 125000
                                                                                    : 4u * size_n) {
            const struct case_of c = {UW_SIM_HALVING, UW_ALLREDUCE_HALVING, nodes, size_n, 1e9,
                                      5000};
            compare_averages(&c);
        }
    }
}

/* Partners of a hypercube never pull from the same node. */
static void compare_pulls(uint32_t nodes, uint32_t size_n, double bits_per_s, uint64_t latency_us)
{
    struct took formula, events;
    const struct even_fleet even = network_of(nodes, bits_per_s, latency_us);
    const struct uw_sim_path path = {.latency_s = (double)latency_us / 1e6,
                                     .byte_s = 8.0 / bits_per_s};
    params.size_n = segment.size_n = size_n;
    params.x = uw_test_floats(size_n);
    memset(params.x, 0, size_n * sizeof(float));
    struct uw_world_config w = config_of(UW_WORLD_FORMULA, UW_NODE_GOSSIP);
    run(&formula, &w, &even);
    w = config_of(UW_WORLD_EVENTS, UW_NODE_GOSSIP);
    run(&events, &w, &even);
    double s = uw_sim_pull_s(&path, 4.0 * size_n, true);
    double held = chunks_of(2.0 * path.latency_s / path.byte_s), all = chunks_of(4.0 * size_n);
    double most_s = HEADERS * s + SLACK_S + SLOW_ROUNDS * 4.0 * size_n * path.byte_s +
                    2.0 * path.latency_s * round_trips(held < all ? held : all);
    double shipped_s = median(events.pull_s, events.pulls_n);
    printf("pull, %u nodes, %u bytes, %g bit/s, %u us: formula %.3f ms, events %.3f, explained "
           "%.3f to %.3f\n", (unsigned)nodes, 4u * (unsigned)size_n, bits_per_s,
           (unsigned)latency_us, 1e3 * s, 1e3 * shipped_s, 1e3 * (s - CUT_S), 1e3 * most_s);
    assert_true(events.pulls_n >= (ROUNDS - 1u) * nodes);
    assert_true(shipped_s >= s - CUT_S && shipped_s <= most_s);
    /* Rounds that do not overlap take as long as their steps, and a model each. */
    assert_true(fabs(formula.run_s - events.run_s) < 1e-9);
    assert_true(fabs(formula.run_s - ROUNDS * PERIOD * 0.4) < 1e-9);
    assert_true(fabs(formula.sent_models - (ROUNDS - 1.0) * nodes) < 1e-6);
    assert_true(events.sent_models >= formula.sent_models &&
                events.sent_models <= 1.1 * formula.sent_models);
    uw_test_release(params.x);
}

static void test_pulls_take_the_formulas_time_and_the_round_trips_of_their_start(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8u; i += uw_test_slow() ? 3 : 1) {
        bool fast = i / 4u != 0;
        compare_pulls(i % 2u != 0 ? 8 : 4, i / 2u % 2u != 0 ? 500000 : 25000, fast ? 1e9 : 1e8,
                      fast ? 5000 : 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_averages_take_the_formulas_time_and_four_latencies),
        cmocka_unit_test(test_averages_over_latency_wait_for_no_window),
        cmocka_unit_test(test_pulls_take_the_formulas_time_and_the_round_trips_of_their_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
