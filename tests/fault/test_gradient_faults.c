/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that average the gradients of every step in random trouble, on virtual time. Each scenario
 * follows from its seed alone: UWASA_TEST_SEED=N UWASA_TEST_COUNT=1 replays the one that failed,
 * and UWASA_TEST_TALK=1 tells what happened in it.
 *
 * A scenario draws the number of nodes, the link (loss up to 20 %, duplicates, reordering, damage,
 * delay) and some events: kill, return, pause, stalled training, slow member, partition, heal. What
 * is averaged is always the mean of what all ranks handed over, and nobody waits for ever. At the
 * end all is healed, and everybody must be in one group again, with the same parameters. */
#include "fault/gradient_world.h"

#include "uwasa/rng.h"

#define COUNT_DEFAULT 40u
#define EVENTS_MAX 6u
#define HEAL_LIMIT_US 400000000u

static bool chance(struct uw_rng *rng, float p)
{
    return uw_rng_uniform(rng) < p;
}

static void draw_link(struct uw_rng *rng, struct uw_impairment *bad)
{
    bad->delay_us = 100u + uw_rng_below(rng, chance(rng, 0.2f) ? 20000u : 2000u);
    bad->jitter_us = chance(rng, 0.5f) ? uw_rng_below(rng, 3000u) : 0;
    bad->loss = chance(rng, 0.5f) ? 0.2f * uw_rng_uniform(rng) : 0.0f;
    bad->duplicate = chance(rng, 0.3f) ? 0.2f * uw_rng_uniform(rng) : 0.0f;
    bad->reorder = chance(rng, 0.3f) ? 0.2f * uw_rng_uniform(rng) : 0.0f;
    bad->corrupt = chance(rng, 0.3f) ? 0.1f * uw_rng_uniform(rng) : 0.0f;
}

static void cut_between(struct world *w, uint32_t i, uint32_t k, uint8_t directions)
{
    if (i != k && w->nodes[i].up) {
        (void)uw_link_emulated_cut(&w->nodes[i].emulated, (uint16_t)k, directions);
    }
}

static void heal(struct gradient_world *g)
{
    for (uint32_t i = 0; i < g->w->n; i++) {
        for (uint32_t k = 0; k < g->w->n; k++) {
            cut_between(g->w, i, k, 0);
        }
        g->w->nodes[i].paused = g->nodes[i].stalled = false;
        g->w->nodes[i].slowness = 1;
        g->nodes[i].moved_us = g->w->now_us;
    }
}

static void restart(struct gradient_world *g, uint32_t i, struct uw_rng *rng)
{
    struct uw_node_config c = world_config(g->w, i);
    c.newcomer = chance(rng, 0.5f);
    world_up_with(g->w, i, c);
    gradient_world_forget(g, i);
}

static void one_event(struct gradient_world *g, struct uw_rng *rng)
{
    struct world *w = g->w;
    uint32_t i = uw_rng_below(rng, w->n), side = uw_rng_u32(rng);
    switch (uw_rng_below(rng, 7)) {
    case 0:
    case 1:
        if (w->nodes[i].up) {
            w->nodes[i].paused = false;
            world_down(w, i);
        } else {
            restart(g, i, rng);
        }
        break;
    case 2: w->nodes[i].paused = !w->nodes[i].paused; break;
    case 3: w->nodes[i].slowness = 1u + uw_rng_below(rng, 30); break;
    case 4:
        g->nodes[i].stalled = !g->nodes[i].stalled;
        g->nodes[i].moved_us = w->now_us;
        break;
    case 5:
        for (uint32_t k = 0; k < w->n * w->n; k++) {
            if (((side >> k / w->n ^ side >> k % w->n) & 1u) != 0) {
                cut_between(w, k / w->n, k % w->n, UW_EMULATED_BOTH);
            }
        }
        break;
    default: heal(g); break;
    }
}

static uint32_t events_of(const struct gradient_world *g, enum uw_node_event_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->w->n; i++) {
        n += g->w->nodes[i].events[kind];
    }
    return n;
}

struct tally {
    uint32_t scenarios, groups, cuts, compared;
    uint64_t longest_us;
};

static void scenario(uint64_t seed, struct tally *t)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    uint32_t n = 2u + uw_rng_below(&rng, 4);
    struct gradient_world *g = gradient_world_new(n, 300);
    struct world *w = g->w;
    w->seed = seed;
    w->train_us = 20000u + uw_rng_below(&rng, 40000);
    w->config.gather_us = 5000000;
    w->config.round_us = 30000000;
    draw_link(&rng, &w->impairment);
    world_start(w);
    gradient_world_run(g, 3000000);
    uint32_t events = uw_rng_below(&rng, EVENTS_MAX + 1u);
    for (uint32_t e = 0; e < events; e++) {
        one_event(g, &rng);
        uint32_t most_us = chance(&rng, 0.3f) ? 15000000 : 1500000;
        gradient_world_run(g, 100000u + uw_rng_below(&rng, most_us));
    }
    heal(g);
    for (uint32_t i = 0; i < n; i++) {
        if (!w->nodes[i].up) {
            restart(g, i, &rng);
        }
    }
    gradient_world_together(g, n, 10, HEAL_LIMIT_US);
    t->scenarios++;
    t->groups += events_of(g, UW_NODE_GRADIENTS);
    t->cuts += events_of(g, UW_NODE_GRADIENTS_CUT);
    t->compared += g->compared_n;
    t->longest_us = g->longest_us > t->longest_us ? g->longest_us : t->longest_us;
    gradient_world_free(g);
}

static void test_gradients_survive_random_trouble(void **state)
{
    (void)state;
    struct tally t = {0};
    const char *text = getenv("UWASA_TEST_COUNT");
    uint32_t count = text != NULL ? (uint32_t)strtoul(text, NULL, 0) : COUNT_DEFAULT;
    uint64_t first = uw_test_seed(1);
    for (uint64_t seed = first; seed < first + count; seed++) {
        char env[32];
        snprintf(env, sizeof env, "%llu", (unsigned long long)seed);
        setenv("UWASA_TEST_SEED", env, 1);      /* what the world prints */
        scenario(seed, &t);
    }
    printf("%u scenarios: %u times a node was in a group, %u times it was given up; parameters "
           "were compared %u times; the longest wait was %.1f s\n", (unsigned)t.scenarios,
           (unsigned)t.groups, (unsigned)t.cuts, (unsigned)t.compared,
           (double)t.longest_us / 1e6);
    assert_true(t.compared > 10u * t.scenarios);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients_survive_random_trouble)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
