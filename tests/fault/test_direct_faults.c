/* SPDX-License-Identifier: Apache-2.0
 *
 * Averages that devices make among themselves in random trouble: flaws of devices, nodes that die,
 * come back and stand still, partitions, bad links. UWASA_TEST_SEED=N UWASA_TEST_COUNT=1 replays
 * one scenario. */
#include "fault/device_world.h"
#include "fault/trouble.h"

#include <stdlib.h>

#define SCENARIOS 20u
#define EVENTS_MAX 6u

static void go_down(uint32_t i)
{
    struct device *d = &device_world.of[i];
    world_down(device_world.a->w, i);
    average_world_forget(device_world.a, i);
    if (d->group != NULL) {
        d->group->left++;
    }
    d->group = NULL;
    d->flaw = WELL;
}

static void draw_event(struct uw_rng *rng)
{
    struct world *w = device_world.a->w;
    uint32_t i = uw_rng_below(rng, w->n);
    switch (uw_rng_below(rng, 6)) {
    case 0:
        if (w->nodes[i].up) {
            w->nodes[i].paused = false;
            go_down(i);
        } else {
            world_up_with(w, i, device_world_config(i, true));
        }
        break;
    case 1:
        w->nodes[i].paused = !w->nodes[i].paused;
        device_world.a->nodes[i].since_us = w->now_us;
        break;
    case 2: trouble_part(w, uw_rng_below(rng, 1u << w->n)); break;
    default:
        device_world.of[i].flaw = (enum flaw)(FAILS_TO_BEGIN + uw_rng_below(rng, DIFFERS));
        device_world.of[i].always = trouble_chance(rng, 0.2f);
        break;
    }
}

/* Flaws of devices among all else that may happen; at the end all is well, and devices average. */
static void run_scenario(uint64_t seed, void *arg)
{
    static const struct trouble_link bad_links = {40000, 3000, {0.6f, 0.2f}, {0.3f, 0.2f},
                                                  {0.3f, 0.2f}, {0.3f, 0.1f}, true};
    struct uw_rng rng;
    uint32_t before[NODES];
    (void)arg;
    uw_rng_seed(&rng, seed);
    struct world *w = device_world_new(2 + uw_rng_below(&rng, NODES - 1u))->w;
    w->seed = seed;
    w->train_us = 50000;
    trouble_draw_link(&rng, &bad_links, &w->impairment);
    device_world_start(UINT32_MAX);
    for (uint32_t events = uw_rng_below(&rng, EVENTS_MAX + 1u); events > 0; events--) {
        average_world_run(device_world.a, 1000000u * (1u + uw_rng_below(&rng, 15)));
        draw_event(&rng);
    }
    average_world_run(device_world.a, 20000000);
    trouble_heal(w);
    for (uint32_t i = 0; i < w->n; i++) {
        device_world.of[i].flaw = WELL;
        device_world.of[i].always = false;
        device_world.a->nodes[i].since_us = w->now_us;
        if (!w->nodes[i].up) {
            world_up_with(w, i, device_world_config(i, true));
        }
    }
    average_world_run(device_world.a, 250000000);
    for (uint32_t i = 0; i < w->n; i++) {
        before[i] = w->nodes[i].rounds;
    }
    average_world_run(device_world.a, 60000000);
    for (uint32_t i = 0; i < w->n; i++) {
        assert_true(w->nodes[i].rounds > before[i]);
    }
    device_world_free();
}

static void test_random_trouble_hangs_and_tears_nothing(void **state)
{
    (void)state;
    trouble_seeds(SCENARIOS, run_scenario, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_trouble_hangs_and_tears_nothing),
    };
    setenv("UWASA_TEST_IMAGES", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
