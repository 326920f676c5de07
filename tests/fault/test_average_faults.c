/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact averages in random trouble, thousands of scenarios on virtual time. Each follows from its
 * seed alone: UWASA_TEST_SEED=N UWASA_TEST_COUNT=1 replays the one that failed, and
 * UWASA_TEST_TALK=1 tells what happened in it.
 *
 * A scenario draws the number of nodes, one cell or two, the size of the model, the algorithm, the
 * link (loss up to 30 %, duplicates, reordering, damage, delay, rate) and up to six events: kill,
 * return with a newer or with an older incarnation, pause, slow member, partition, one-way cut,
 * heal. At the end all is healed, and everybody must average with everybody of its cell again. */
#include "fault/average_world.h"

#include "uwasa/rng.h"

#define COUNT_DEFAULT 100u
#define EVENTS_MAX 6u
#define WAIT_LIMIT_US 400000000u
#define HEAL_LIMIT_US 400000000u

struct tally {
    uint32_t scenarios, whole, committed, split, cut, kills, pauses, partitions;
    uint64_t longest_us;
};

static float between(struct uw_rng *rng, float low, float high)
{
    return low + (high - low) * uw_rng_uniform(rng);
}

static bool chance(struct uw_rng *rng, float p)
{
    return uw_rng_uniform(rng) < p;
}

static void draw_link(struct uw_rng *rng, struct uw_impairment *bad)
{
    bad->delay_us = 100u + uw_rng_below(rng, chance(rng, 0.2f) ? 40000u : 2000u);
    bad->jitter_us = chance(rng, 0.5f) ? uw_rng_below(rng, 3000u) : 0;
    bad->loss = chance(rng, 0.6f) ? between(rng, 0.0f, 0.3f) : 0.0f;
    bad->duplicate = chance(rng, 0.3f) ? between(rng, 0.0f, 0.2f) : 0.0f;
    bad->reorder = chance(rng, 0.3f) ? between(rng, 0.0f, 0.2f) : 0.0f;
    bad->corrupt = chance(rng, 0.3f) ? between(rng, 0.0f, 0.1f) : 0.0f;
    bad->rate_bits_per_s = chance(rng, 0.3f) ? 500000u + uw_rng_below(rng, 8000000u) : 0;
}

static void cut_between(struct world *w, uint32_t i, uint32_t k, uint8_t directions)
{
    if (w->nodes[i].up) {
        (void)uw_link_emulated_cut(&w->nodes[i].emulated, (uint16_t)k, directions);
    }
}

static void heal(struct average_world *a)
{
    struct world *w = a->w;
    for (uint32_t i = 0; i < w->n; i++) {
        for (uint32_t k = 0; k < w->n; k++) {
            if (i != k) {
                cut_between(w, i, k, 0);
            }
        }
        w->nodes[i].paused = false;
        w->nodes[i].slowness = 1;
        a->nodes[i].since_us = w->now_us;
    }
}

static struct uw_node_config config_of(struct average_world *a, uint32_t i, uint32_t left)
{
    struct uw_node_config c = world_config(a->w, i);
    c.cell = (left >> i & 1u) != 0 ? "left" : "right";
    return c;
}

static void restart(struct average_world *a, uint32_t i, struct uw_rng *rng, uint32_t left)
{
    struct uw_node_config c = config_of(a, i, left);
    c.newcomer = chance(rng, 0.5f);
    if (chance(rng, 0.2f)) {
        c.incarnation = 1;      /* its clock stood still */
    }
    world_up_with(a->w, i, c);
}

static void partition(struct world *w, uint32_t side)
{
    for (uint32_t i = 0; i < w->n; i++) {
        for (uint32_t k = 0; k < w->n; k++) {
            if (i != k && ((side >> i ^ side >> k) & 1u) != 0) {
                cut_between(w, i, k, UW_EMULATED_BOTH);
            }
        }
    }
}

/* Returns whether it may part the ranks of a round. */
static bool one_event(struct average_world *a, struct uw_rng *rng, struct tally *t,
                      uint32_t left)
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
            average_world_forget(a, i);
            t->kills++;
        } else {
            restart(a, i, rng, left);
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
        partition(w, uw_rng_u32(rng));
        t->partitions++;
        break;
    case 5:
        cut_between(w, i, k, UW_EMULATED_OUT);
        break;
    default:
        heal(a);
        break;
    }
    return what != 3u && what != 6u;
}

/* All of a cell in one round, committed by all of them. */
static bool have_met(const struct average_world *a, uint32_t cell)
{
    bool one = (cell & (cell - 1u)) == 0;
    for (uint32_t i = a->rounds_n; i > 0 && i + 32u > a->rounds_n && !one; i--) {
        if (a->rounds[i - 1u].committed == cell) {
            return true;
        }
    }
    return one;
}

static bool all_met(const struct average_world *a, uint32_t left)
{
    uint32_t all = (1u << a->w->n) - 1u;
    return have_met(a, all & left) && have_met(a, all & ~left);
}

static void check_end(struct average_world *a, struct uw_rng *rng, uint32_t left)
{
    struct world *w = a->w;
    heal(a);
    for (uint32_t i = 0; i < w->n; i++) {
        if (!w->nodes[i].up) {
            restart(a, i, rng, left);
        }
    }
    uint64_t until_us = w->now_us + HEAL_LIMIT_US;
    while (!all_met(a, left)) {
        average_world_run(a, 100000);
        if (w->now_us > until_us) {
            fail_msg("after the heal they do not all average within %.0f s",
                     (double)HEAL_LIMIT_US / 1e6);
        }
    }
}

static void scenario(uint64_t seed, struct tally *t)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    uint32_t n = 2u + uw_rng_below(&rng, 6), size_n = 2u + uw_rng_below(&rng, 400);
    enum uw_allreduce_kind kind = (enum uw_allreduce_kind)uw_rng_below(&rng, UW_ALLREDUCE_KINDS_N);
    struct average_world *a = average_world_new(n, size_n, 300);
    struct world *w = a->w;
    w->seed = seed;
    w->train_us = 5000u + uw_rng_below(&rng, 40000);
    w->config.algorithm = chance(&rng, 0.7f) ? &kind : NULL;
    w->config.gather_us = 5000000;
    w->config.round_us = 30000000;
    w->config.scratch_n = chance(&rng, 0.5f) ? size_n : 0;
    a->same_bits = w->config.algorithm == NULL || kind != UW_ALLREDUCE_SWEEP;
    a->limit_us = WAIT_LIMIT_US;
    draw_link(&rng, &w->impairment);
    bool cells = chance(&rng, 0.3f);
    uint32_t left = cells ? uw_rng_u32(&rng) : UINT32_MAX;
    w->config.mode = cells ? UW_NODE_HIERARCHICAL : UW_NODE_ALLREDUCE;
    w->config.head_weight = 1;
    for (uint32_t i = 0; i < n; i++) {
        world_up_with(w, i, config_of(a, i, left));
    }
    average_world_run(a, 2000000);
    uint32_t events = uw_rng_below(&rng, EVENTS_MAX + 1u);
    bool apart = false;
    for (uint32_t e = 0; e < events; e++) {
        apart = one_event(a, &rng, t, left) || apart;
        uint32_t most_us = chance(&rng, 0.3f) ? 15000000 : 1500000;
        average_world_run(a, 100000u + uw_rng_below(&rng, most_us));
    }
    check_end(a, &rng, left);
    if (!apart) {
        assert_int_equal(average_world_split(a), 0);    /* lost messages alone part nobody */
        t->whole++;
    }
    t->scenarios++;
    t->committed += a->committed_n;
    t->split += average_world_split(a);
    for (uint32_t i = 0; i < a->rounds_n; i++) {
        t->cut += a->rounds[i].aborted != 0;
    }
    t->longest_us = a->longest_us > t->longest_us ? a->longest_us : t->longest_us;
    average_world_free(a);
}

static void test_averages_survive_random_trouble(void **state)
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
    printf("%u scenarios, %u of them with bad links only: %u kills, %u pauses, %u partitions; %u "
           "rounds committed, %u given up, %u committed by some only; the longest wait was %.1f "
           "s\n",
           (unsigned)t.scenarios, (unsigned)t.whole, (unsigned)t.kills, (unsigned)t.pauses,
           (unsigned)t.partitions, (unsigned)t.committed, (unsigned)t.cut, (unsigned)t.split,
           (double)t.longest_us / 1e6);
    assert_true(t.committed > t.scenarios);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_averages_survive_random_trouble)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
