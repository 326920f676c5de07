/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that average the gradients of every step in random trouble, on virtual time. Each scenario
 * follows from its seed alone: UWASA_TEST_SEED=N UWASA_TEST_COUNT=1 replays the one that failed,
 * and UWASA_TEST_TALK=1 tells what happened in it.
 *
 * A scenario draws the number of nodes, the link (loss up to 20 %, duplicates, reordering, damage,
 * delay) and some events: kill, return, pause, stalled training, slow member, partition, heal. What
 * is averaged is always the mean of what all ranks handed over, and nobody waits for ever. In a
 * third of them some nodes do not hear some others (trouble.h), and all train on. At the end all is
 * healed, and everybody must be in one group again, with the same parameters. All of it a second
 * time where all nodes have devices (gradient_devices.h), which fail and hang now and then. */
#include "fault/gradient_devices.h"
#include "fault/trouble.h"

#include <stdlib.h>

#define COUNT_DEFAULT 40u
#define EVENTS_MAX 6u
#define HEAL_LIMIT_US 400000000u
#define MTU_BYTES 300u
#define SETTLE_US 10000000u
#define APART_US 20000000u          /* nobody stands still for so long */

static const struct trouble_link bad_links = {20000, 3000, {0.5f, 0.2f}, {0.3f, 0.2f}, {0.3f, 0.2f},
                                              {0.3f, 0.1f}, false};

static void heal(struct gradient_world *g)
{
    trouble_heal(g->w);
    for (uint32_t i = 0; i < g->w->n; i++) {
        g->nodes[i].stalled = false;
        g->nodes[i].moved_us = g->w->now_us;
    }
}

static bool with_devices;

static void restart(struct gradient_world *g, uint32_t i, struct uw_rng *rng)
{
    if (with_devices) {
        gradient_devices_up(i, trouble_chance(rng, 0.5f));
        return;
    }
    struct uw_node_config c = world_config(g->w, i);
    c.newcomer = trouble_chance(rng, 0.5f);
    world_up_with(g->w, i, c);
    gradient_world_forget(g, i);
}

static void restart_all(struct gradient_world *g, struct uw_rng *rng)
{
    for (uint32_t i = 0; i < g->w->n; i++) {
        if (!g->w->nodes[i].up) {
            restart(g, i, rng);
        }
    }
}

static void go_on_apart(struct gradient_world *g, struct uw_rng *rng)
{
    heal(g);
    restart_all(g, rng);
    trouble_draw_reach(rng, g->w, MTU_BYTES);
    gradient_world_run(g, SETTLE_US);
    const struct trouble_steps since = trouble_steps(g->w);
    gradient_world_run(g, APART_US);
    trouble_expect_steps(g->w, &since);
    trouble_all_hear(g->w);
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
            if (with_devices) {
                gradient_devices_down(i);
            } else {
                world_down(w, i);
            }
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
    case 5: trouble_part(w, side); break;
    default: heal(g); break;
    }
}

/* One of them fails or hangs soon. */
static void draw_flaw(struct uw_rng *rng, uint32_t n)
{
    struct device *it = &gradient_devices.of[uw_rng_below(rng, n)];
    uint32_t at = it->adds + 1u + uw_rng_below(rng, 100);
    *(trouble_chance(rng, 0.5f) ? &it->fails_at : &it->hangs_at) = at;
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
    uint32_t scenarios, groups, cuts, compared, added;
    uint64_t longest_us;
};

static void scenario(uint64_t seed, void *arg)
{
    struct tally *t = arg;
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    uint32_t n = 2u + uw_rng_below(&rng, 4);
    struct gradient_world *g = with_devices ? gradient_devices_new(n)
                                            : gradient_world_new(n, MTU_BYTES);
    struct world *w = g->w;
    w->seed = seed;
    w->train_us = 20000u + uw_rng_below(&rng, 40000);
    w->config.gather_us = 5000000;
    w->config.round_us = 30000000;
    trouble_draw_link(&rng, &bad_links, &w->impairment);
    for (uint32_t i = 0; i < n && with_devices; i++) {
        gradient_devices_up(i, false);
    }
    if (!with_devices) {
        world_start(w);
    }
    gradient_world_run(g, 3000000);
    uint32_t events = uw_rng_below(&rng, EVENTS_MAX + 1u);
    for (uint32_t e = 0; e < events; e++) {
        one_event(g, &rng);
        if (with_devices && trouble_chance(&rng, 0.3f)) {
            draw_flaw(&rng, n);
        }
        uint32_t most_us = trouble_chance(&rng, 0.3f) ? 15000000 : 1500000;
        gradient_world_run(g, 100000u + uw_rng_below(&rng, most_us));
    }
    if (!with_devices && seed % 3u == 0) {
        go_on_apart(g, &rng);
    }
    heal(g);
    restart_all(g, &rng);
    gradient_world_together(g, n, 10, HEAL_LIMIT_US);
    t->scenarios++;
    t->groups += events_of(g, UW_NODE_GRADIENTS);
    t->cuts += events_of(g, UW_NODE_GRADIENTS_CUT);
    t->compared += g->compared_n;
    for (uint32_t i = 0; i < n && with_devices; i++) {
        t->added += gradient_devices.of[i].adds;
    }
    t->longest_us = g->longest_us > t->longest_us ? g->longest_us : t->longest_us;
    gradient_world_free(g);
}

static void test_gradients_survive_random_trouble(void **state)
{
    (void)state;
    struct tally t = {0};
    trouble_seeds(COUNT_DEFAULT, scenario, &t);
    printf("%u scenarios: %u times a node was in a group, %u times it was given up; parameters "
           "were compared %u times; the longest wait was %.1f s\n", (unsigned)t.scenarios,
           (unsigned)t.groups, (unsigned)t.cuts, (unsigned)t.compared,
           (double)t.longest_us / 1e6);
    assert_true(t.compared > 10u * t.scenarios);
}

static void test_gradients_of_devices_survive_random_trouble(void **state)
{
    (void)state;
    struct tally t = {0};
    with_devices = true;
    (void)setenv("UWASA_TEST_IMAGES", "1", 1);
    trouble_seeds(COUNT_DEFAULT, scenario, &t);
    printf("%u scenarios with devices: %u steps of nodes were theirs; %u times a node was in a "
           "group, %u times it was given up; the longest wait was %.1f s\n", (unsigned)t.scenarios,
           (unsigned)t.added, (unsigned)t.groups, (unsigned)t.cuts, (double)t.longest_us / 1e6);
    assert_true(t.added > 10u * t.scenarios);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_survive_random_trouble),
        cmocka_unit_test(test_gradients_of_devices_survive_random_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
