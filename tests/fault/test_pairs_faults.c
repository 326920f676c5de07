/* SPDX-License-Identifier: Apache-2.0
 *
 * Committed pairs in random trouble, a thousand scenarios on virtual time. Each follows from its
 * seed alone: UWASA_TEST_SEED=N UWASA_TEST_COUNT=1 replays the one that failed, and
 * UWASA_TEST_TALK=1 tells what happened in it.
 *
 * A scenario draws the number of nodes, the model's size, the schedule, the link (loss up to 30 %,
 * duplicates, reordering, damage, delay, rate) and up to six events: kill, return, pause, slow
 * member, partition, one-way cut, heal. In a third of them some nodes do not hear some others after
 * that (trouble.h), and all train on. At the end all is healed: everybody must be paired again,
 * with the trackers adding up to zero if no pair was parted, or everybody has retreated. */
#include "fault/pairs_world.h"
#include "fault/trouble.h"

#define COUNT_DEFAULT 1000u
#define EVENTS_MAX 6u
#define WAIT_LIMIT_US 200000000u
#define HEAL_LIMIT_US 400000000u
#define SETTLED_ROUNDS 8u
#define MTU_BYTES 300u
#define SETTLE_US 10000000u
#define APART_US 20000000u          /* nobody stands still for so long */

static const struct trouble_link bad_links = {40000, 3000, {0.6f, 0.3f}, {0.3f, 0.2f}, {0.3f, 0.2f},
                                              {0.3f, 0.1f}, true};

struct tally {
    uint32_t scenarios, balanced, committed, half, kills, pauses, partitions, retreats;
    uint64_t longest_us;
};

static void heal(struct pairs_world *a)
{
    trouble_heal(a->w);
    for (uint32_t i = 0; i < a->w->n; i++) {
        a->nodes[i].since_us = a->w->now_us;
    }
}

/* With what it had when it went, as from a checkpoint. */
static void restart(struct pairs_world *a, uint32_t i)
{
    a->nodes[i].retreats = 0;
    world_up(a->w, i);
}

/* Returns whether it may part the two sides of a pair. */
static bool one_event(struct pairs_world *a, struct uw_rng *rng, struct tally *t)
{
    struct world *w = a->w;
    uint32_t i = uw_rng_below(rng, w->n), k = uw_rng_below(rng, w->n);
    struct world_node *n = &w->nodes[i];
    uint32_t what = uw_rng_below(rng, 7);
    switch (what) {
    case 0:
    case 1:
        if (n->up) {
            n->paused = false;
            world_down(w, i);
            pairs_world_forget(a, i);
            t->kills++;
        } else {
            restart(a, i);
        }
        break;
    case 2:
        n->paused = !n->paused;
        a->nodes[i].since_us = w->now_us;
        t->pauses++;
        break;
    case 3:
        n->slowness = 1u + uw_rng_below(rng, 100);
        break;
    case 4:
        trouble_part(w, uw_rng_u32(rng));
        t->partitions++;
        break;
    case 5:
        trouble_cut(w, i, k, UW_EMULATED_OUT);
        break;
    default:
        heal(a);
        break;
    }
    return what != 3u && what != 6u;
}

static void go_on_apart(struct pairs_world *a, struct uw_rng *rng)
{
    heal(a);
    trouble_draw_reach(rng, a->w, MTU_BYTES);
    pairs_world_run(a, SETTLE_US);
    const struct trouble_steps since = trouble_steps(a->w);
    pairs_world_run(a, APART_US);
    trouble_expect_steps(a->w, &since);
    trouble_all_hear(a->w);
}

static uint32_t retreated_n(const struct pairs_world *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->w->n; i++) {
        n += a->nodes[i].retreats;
    }
    return n;
}

/* Each has committed some pairs since, or all have retreated. */
static bool all_go_on(const struct pairs_world *a, const uint32_t *rounds)
{
    bool paired = true;
    for (uint32_t i = 0; i < a->w->n; i++) {
        paired = paired && a->w->nodes[i].rounds >= rounds[i] + SETTLED_ROUNDS;
    }
    return retreated_n(a) == a->w->n || (retreated_n(a) == 0 && paired);
}

static void check_end(struct pairs_world *a)
{
    struct world *w = a->w;
    uint32_t rounds[WORLD_MAX];
    heal(a);
    for (uint32_t i = 0; i < w->n; i++) {
        if (!w->nodes[i].up) {
            restart(a, i);
        }
        rounds[i] = w->nodes[i].rounds;
    }
    uint64_t until_us = w->now_us + HEAL_LIMIT_US;
    while (!all_go_on(a, rounds)) {
        pairs_world_run(a, 100000);
        if (w->now_us > until_us) {
            fail_msg("after the heal %u of %u have retreated, and they are not all paired, within "
                     "%.0f s", (unsigned)retreated_n(a), (unsigned)w->n,
                     (double)HEAL_LIMIT_US / 1e6);
        }
    }
}

/* Nobody begins anything new; what is under way ends. */
static void come_to_rest(struct pairs_world *a)
{
    for (uint32_t i = 0; i < a->w->n; i++) {
        a->w->nodes[i].progress.lr = 0.0f;
    }
    a->step = NULL;
    pairs_world_run(a, 40000000);
}

static void scenario(uint64_t seed, void *arg)
{
    struct tally *t = arg;
    static const char *const schedules[] = {"matching", "hypercube", "base2"};
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    uint32_t n = 2u + uw_rng_below(&rng, 6), size_n = 2u + uw_rng_below(&rng, 300);
    struct pairs_world *a = pairs_world_new(n, size_n, MTU_BYTES);
    struct world *w = a->w;
    w->seed = seed;
    w->train_us = 5000u + uw_rng_below(&rng, 40000);
    w->config.gather_us = 5000000;
    w->config.round_us = 30000000;
    w->config.schedule = uw_peer_schedule_find(schedules[uw_rng_below(&rng, 3)]);
    a->limit_us = WAIT_LIMIT_US;
    trouble_draw_link(&rng, &bad_links, &w->impairment);
    world_start(w);
    pairs_world_run(a, 2000000);
    uint32_t events = uw_rng_below(&rng, EVENTS_MAX + 1u);
    bool apart = false;
    for (uint32_t e = 0; e < events; e++) {
        apart = one_event(a, &rng, t) || apart;
        uint32_t most_us = trouble_chance(&rng, 0.3f) ? 15000000 : 1500000;
        pairs_world_run(a, 100000u + uw_rng_below(&rng, most_us));
    }
    if (seed % 3u == 0) {
        go_on_apart(a, &rng);
        apart = true;
    }
    check_end(a);
    come_to_rest(a);
    uint32_t half = pairs_world_half(a);
    if (!apart) {
        assert_int_equal(half, 0);              /* lost messages alone part nobody */
        assert_int_equal(retreated_n(a), 0);
    }
    if (half == 0 && retreated_n(a) == 0) {
        assert_true(pairs_world_imbalance(a) < 1e-3);
        t->balanced++;
    }
    t->scenarios++;
    t->committed += a->committed_n;
    t->half += half;
    t->retreats += retreated_n(a) != 0;
    t->longest_us = a->longest_us > t->longest_us ? a->longest_us : t->longest_us;
    pairs_world_free(a);
}

static void test_pairs_survive_random_trouble(void **state)
{
    (void)state;
    struct tally t = {0};
    trouble_seeds(COUNT_DEFAULT, scenario, &t);
    printf("%u scenarios: %u kills, %u pauses, %u partitions; %u pairs committed, %u half-open, "
           "%u runs retreated, in %u the trackers add up to zero; the longest wait was %.1f s\n",
           (unsigned)t.scenarios, (unsigned)t.kills, (unsigned)t.pauses, (unsigned)t.partitions,
           (unsigned)t.committed, (unsigned)t.half, (unsigned)t.retreats, (unsigned)t.balanced,
           (double)t.longest_us / 1e6);
    assert_true(t.committed > 10u * t.scenarios);
    assert_true(2u * t.balanced > t.scenarios);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs_survive_random_trouble)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
