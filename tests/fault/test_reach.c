/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of which some do not hear each other, on virtual time: in every mode and every shape each
 * makes nine of ten steps of an undisturbed run, and its model is mixed with those of all whom it
 * reaches, directly or through others. UWASA_TEST_TALK=1 tells what happened. */
#include "fault/gradient_world.h"

#define SIZE_N 1200u                /* 17 full messages */
#define MTU_BYTES 300u
#define HOLE_BYTES 280u             /* of parts and chunks none passes that is full */
#define RUN_US 60000000u
#define TRAIN_US 50000u
#define LATE_US 20000000u
#define PERIOD 10u

/* What a message meets on its way from one node to another. */
enum { HEARD, LOST, HOLE };

struct shape {
    const char *name;
    uint32_t n;
    int (*way)(uint32_t from, uint32_t to);
};

static bool is_pair(uint32_t a, uint32_t b, uint32_t i, uint32_t k)
{
    return (a == i && b == k) || (a == k && b == i);
}

static int all_heard(uint32_t from, uint32_t to)
{
    (void)from;
    (void)to;
    return HEARD;
}

static int pair_bc(uint32_t from, uint32_t to)
{
    return is_pair(from, to, 1, 2) ? LOST : HEARD;
}

static int pair_ad(uint32_t from, uint32_t to)
{
    return is_pair(from, to, 0, 3) ? LOST : HEARD;
}

static int pair_bd(uint32_t from, uint32_t to)
{
    return is_pair(from, to, 1, 3) ? LOST : HEARD;
}

static int one_way_bc(uint32_t from, uint32_t to)
{
    return from == 1 && to == 2 ? LOST : HEARD;
}

static int one_way_ad(uint32_t from, uint32_t to)
{
    return from == 0 && to == 3 ? LOST : HEARD;
}

static int one_way_da(uint32_t from, uint32_t to)
{
    return from == 3 && to == 0 ? LOST : HEARD;
}

static int one_way_bd(uint32_t from, uint32_t to)
{
    return from == 1 && to == 3 ? LOST : HEARD;
}

static int hole_bc(uint32_t from, uint32_t to)
{
    return is_pair(from, to, 1, 2) ? HOLE : HEARD;
}

static int hole_one_way_bc(uint32_t from, uint32_t to)
{
    return from == 1 && to == 2 ? HOLE : HEARD;
}

static int hole_ad(uint32_t from, uint32_t to)
{
    return is_pair(from, to, 0, 3) ? HOLE : HEARD;
}

static int two_pairs(uint32_t from, uint32_t to)
{
    return is_pair(from, to, 0, 3) || is_pair(from, to, 1, 2) ? LOST : HEARD;
}

/* Each of them behind a NAT of its own, but the first. */
static int star(uint32_t from, uint32_t to)
{
    return from != 0 && to != 0 ? LOST : HEARD;
}

/* Two groups, and one that all hear. */
static int two_groups(uint32_t from, uint32_t to)
{
    return from != 0 && to != 0 && (from < 4) != (to < 4) ? LOST : HEARD;
}

/* Old and new addresses, and two who have both. */
static int two_bridges(uint32_t from, uint32_t to)
{
    return from > 1 && to > 1 && (from < 5) != (to < 5) ? LOST : HEARD;
}

static int chain(uint32_t from, uint32_t to)
{
    return from + 1u == to || to + 1u == from ? HEARD : LOST;
}

static int ring(uint32_t from, uint32_t to)
{
    return (from + 1u) % 6u == to || (to + 1u) % 6u == from ? HEARD : LOST;
}

static const struct shape shapes[] = {
    {"a pair", 4, pair_bc},
    {"a pair with the first seed", 4, pair_ad},
    {"a pair with the head", 4, pair_bd},
    {"one of a pair", 4, one_way_bc},
    {"one that the head does not hear", 4, one_way_ad},
    {"one that does not hear the head", 4, one_way_da},
    {"one that does not hear another head", 4, one_way_bd},
    {"a black hole", 4, hole_bc},
    {"a black hole one way", 4, hole_one_way_bc},
    {"a black hole before the head", 4, hole_ad},
    {"two pairs", 4, two_pairs},
    {"one that all hear, and nobody else", 6, star},
    {"two groups and one of both", 7, two_groups},
    {"two groups and two of both", 8, two_bridges},
    {"a chain", 4, chain},
    {"a ring", 6, ring},
};

enum mode { GOSSIP, EXACT, AUTO, GRADIENTS, MODES };
static const char *const mode_names[] = {"gossip", "averages", "auto", "gradients"};

static const char *const addresses[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

static void narrow(struct world *w, const struct shape *s)
{
    for (uint32_t i = 0; i < w->n; i++) {
        for (uint32_t k = 0; k < w->n; k++) {
            int way = i != k ? s->way(i, k) : HEARD;
            world_narrow(w, i, k, way == LOST ? WORLD_NOTHING : way == HOLE ? HOLE_BYTES : 0);
        }
    }
}

struct outcome {
    uint32_t steps;                 /* of the node with the fewest */
    float spread;                   /* of the models */
};

static void run_for(struct world *w, struct gradient_world *g, uint64_t us)
{
    if (g != NULL) {
        gradient_world_run(g, us);
    } else {
        world_run(w, us);
    }
}

/* A minute, in which they do not hear each other: from the beginning, or after some seconds. */
static struct outcome run(enum mode mode, const struct shape *s, bool late)
{
    static const enum uw_node_mode modes[] = {UW_NODE_GOSSIP, UW_NODE_ALLREDUCE, UW_NODE_AUTO,
                                              UW_NODE_ALLREDUCE};
    struct gradient_world *g = mode == GRADIENTS ? gradient_world_new(s->n, MTU_BYTES) : NULL;
    struct world *w = g != NULL ? g->w : world_new(s->n, SIZE_N, MTU_BYTES);
    w->config.period_steps = PERIOD;
    w->config.seeds = addresses;
    w->config.seeds_n = s->n;
    w->config.mode = modes[mode];
    w->config.head_weight = 1;
    w->train_us = TRAIN_US;
    if (!late) {
        narrow(w, s);
    }
    world_start(w);
    run_for(w, g, late ? LATE_US : 0);
    narrow(w, s);
    run_for(w, g, RUN_US);
    struct outcome o = {.steps = UINT32_MAX};
    float low = 1e30f, high = -1e30f;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t steps = w->nodes[i].progress.step;
        float x = w->nodes[i].snapshot.data[0];
        o.steps = steps < o.steps ? steps : o.steps;
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    o.spread = high - low;
    if (g != NULL) {
        gradient_world_free(g);
    } else {
        world_free(w);
    }
    return o;
}

/* Nine of ten steps of nodes that all hear each other; and models that began from 1 to n have come
 * together (those of gradients also move on their own). */
static void expect_all_shapes(enum mode mode)
{
    uint32_t all[WORLD_MAX][2] = {{0}};     /* steps of so many nodes that all hear each other */
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape undisturbed = {"", shapes[i].n, all_heard};
        for (uint32_t late = 0; late < 2; late++) {
            uint32_t *steps = &all[shapes[i].n][late];
            *steps = *steps != 0 ? *steps : run(mode, &undisturbed, late != 0).steps;
            struct outcome o = run(mode, &shapes[i], late != 0);
            printf("%s, %s%s: %u of %u steps, models %.2g apart\n", mode_names[mode],
                   shapes[i].name, late != 0 ? " later" : "", (unsigned)o.steps,
                   (unsigned)*steps, (double)o.spread);
            assert_true(10u * o.steps >= 9u * *steps);
            assert_true(mode == GRADIENTS || o.spread < 0.5f * (float)(shapes[i].n - 1u));
        }
    }
}

static void test_gossip_goes_on_whoever_hears_whom(void **state)
{
    (void)state;
    expect_all_shapes(GOSSIP);
}

static void test_averages_go_on_whoever_hears_whom(void **state)
{
    (void)state;
    expect_all_shapes(EXACT);
}

static void test_auto_goes_on_whoever_hears_whom(void **state)
{
    (void)state;
    expect_all_shapes(AUTO);
}

static void test_gradients_go_on_whoever_hears_whom(void **state)
{
    (void)state;
    expect_all_shapes(GRADIENTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gossip_goes_on_whoever_hears_whom),
        cmocka_unit_test(test_averages_go_on_whoever_hears_whom),
        cmocka_unit_test(test_auto_goes_on_whoever_hears_whom),
        cmocka_unit_test(test_gradients_go_on_whoever_hears_whom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
