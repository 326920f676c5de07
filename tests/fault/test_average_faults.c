/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact averages in random trouble, thousands of scenarios on virtual time. Each follows from its
 * seed alone: UWASA_TEST_SEED=N UWASA_TEST_COUNT=1 replays the one that failed, and
 * UWASA_TEST_TALK=1 tells what happened in it.
 *
 * A scenario draws the number of nodes, one cell or two, the size of the model, the algorithm, the
 * rule of mixing, the link (loss up to 30 %, duplicates, reordering, damage, delay, rate) and up
 * to six events: kill, return with a newer or with an older incarnation, churn (a dozen of these in
 * a row, at random), pause, slow member, partition, one-way cut, heal. Four in ten have links that
 * lose nothing else, of all nodes or of some: then rounds are streamed. In four of ten some nodes
 * do not hear some others, from the beginning or from some event on (trouble.h); when nothing else
 * goes wrong any more, all of them train on. At the end all is healed, and everybody must average
 * with all of its cell again. */
#include "fault/average_world.h"
#include "fault/trouble.h"

#define COUNT_DEFAULT 100u
#define EVENTS_MAX 6u
#define CHURN_EVENTS 12u
#define WAIT_LIMIT_US 400000000u
#define HEAL_LIMIT_US 400000000u
#define MTU_BYTES 300u
#define SETTLE_US 10000000u
#define APART_US 20000000u          /* nobody stands still for so long */

static const struct trouble_link bad_links = {40000, 3000, {0.6f, 0.3f}, {0.3f, 0.2f}, {0.3f, 0.2f},
                                              {0.3f, 0.1f}, true};

static const struct uw_mix_rule *const rules[] = {&uw_mix_none, &uw_mix_qg, &uw_mix_slowmo,
                                                  &uw_mix_noloco, &uw_mix_diloco};
#define RULES_N ((uint32_t)(sizeof rules / sizeof rules[0]))

struct tally {
    uint32_t scenarios, whole, committed, split, cut, kills, pauses, partitions;
    uint32_t streamed, apart, churns;
    uint64_t longest_us;
};

static void heal(struct average_world *a)
{
    trouble_heal(a->w);
    for (uint32_t i = 0; i < a->w->n; i++) {
        a->nodes[i].since_us = a->w->now_us;
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
    c.newcomer = trouble_chance(rng, 0.5f);
    if (trouble_chance(rng, 0.2f)) {
        c.incarnation = 1;      /* its clock stood still */
    }
    world_up_with(a->w, i, c);
}

static void kill_or_return(struct average_world *a, uint32_t i, struct uw_rng *rng,
                           struct tally *t, uint32_t left)
{
    if (a->w->nodes[i].up) {
        a->w->nodes[i].paused = false;
        world_down(a->w, i);
        average_world_forget(a, i);
        t->kills++;
    } else {
        restart(a, i, rng, left);
    }
}

static void churn(struct average_world *a, struct uw_rng *rng, struct tally *t, uint32_t left)
{
    uint32_t most_us = 100000u << uw_rng_below(rng, 6);
    for (uint32_t k = 0; k < CHURN_EVENTS; k++) {
        kill_or_return(a, uw_rng_below(rng, a->w->n), rng, t, left);
        average_world_run(a, 1000u + uw_rng_below(rng, most_us));
    }
    t->churns++;
}

/* Returns whether it may part the ranks of a round. */
static bool one_event(struct average_world *a, struct uw_rng *rng, struct tally *t,
                      uint32_t left)
{
    struct world *w = a->w;
    uint32_t i = uw_rng_below(rng, w->n), k = uw_rng_below(rng, w->n);
    struct world_node *n = &w->nodes[i];
    uint32_t what = uw_rng_below(rng, 8);
    switch (what) {
    case 0:
    case 1:
        kill_or_return(a, i, rng, t, left);
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
    case 6:
        churn(a, rng, t, left);
        break;
    default:
        heal(a);
        break;
    }
    return what != 3u && what != 7u;
}

/* All of a cell in one round, committed by all of them: in one of those from number `first` on. */
static bool have_met(const struct average_world *a, uint32_t cell, uint32_t first)
{
    bool met = (cell & (cell - 1u)) == 0;
    for (uint32_t i = first; i < a->rounds_n && !met; i++) {
        met = a->rounds[i].committed == cell;
    }
    return met;
}

static bool all_met(const struct average_world *a, uint32_t left, uint32_t first)
{
    uint32_t all = (1u << a->w->n) - 1u;
    return have_met(a, all & left, first) && have_met(a, all & ~left, first);
}

static void restart_all(struct average_world *a, struct uw_rng *rng, uint32_t left)
{
    for (uint32_t i = 0; i < a->w->n; i++) {
        if (!a->w->nodes[i].up) {
            restart(a, i, rng, left);
        }
    }
}

/* Some do not hear some others, and that is all that is wrong: everybody trains. */
static void go_on_apart(struct average_world *a, struct uw_rng *rng, uint32_t left)
{
    heal(a);
    restart_all(a, rng, left);
    average_world_run(a, SETTLE_US);
    const struct trouble_steps since = trouble_steps(a->w);
    average_world_run(a, APART_US);
    trouble_expect_steps(a->w, &since);
    trouble_all_hear(a->w);
}

static void check_end(struct average_world *a, struct uw_rng *rng, uint32_t left)
{
    struct world *w = a->w;
    heal(a);
    restart_all(a, rng, left);
    uint64_t until_us = w->now_us + HEAL_LIMIT_US;
    uint32_t first = a->rounds_n;       /* what they did before the heal proves nothing */
    while (!all_met(a, left, first)) {
        average_world_run(a, 100000);
        if (w->now_us > until_us) {
            fail_msg("after the heal they do not all average within %.0f s",
                     (double)HEAL_LIMIT_US / 1e6);
        }
    }
}

static void count(struct tally *t, const struct average_world *a)
{
    t->scenarios++;
    t->committed += a->committed_n;
    t->streamed += a->streamed_n;
    t->split += average_world_split(a);
    for (uint32_t i = 0; i < a->rounds_n; i++) {
        t->cut += a->rounds[i].aborted != 0;
    }
    t->longest_us = a->longest_us > t->longest_us ? a->longest_us : t->longest_us;
}

static void scenario(uint64_t seed, void *arg)
{
    struct tally *t = arg;
    struct uw_rng rng, of_rules;
    uw_rng_seed(&rng, seed);
    uw_rng_seed(&of_rules, uw_rng_mix(seed, 1));
    uint32_t n = 2u + uw_rng_below(&rng, 6), size_n = 2u + uw_rng_below(&rng, 400);
    enum uw_allreduce_kind kind = (enum uw_allreduce_kind)uw_rng_below(&rng, UW_ALLREDUCE_KINDS_N);
    struct average_world *a = average_world_new(n, size_n, MTU_BYTES);
    struct world *w = a->w;
    w->seed = seed;
    w->train_us = 5000u + uw_rng_below(&rng, 40000);
    w->config.algorithm = trouble_chance(&rng, 0.7f) ? &kind : NULL;
    w->config.gather_us = 5000000;
    w->config.round_us = 30000000;
    w->config.scratch_n = trouble_chance(&rng, 0.5f) ? size_n : 0;
    a->same_bits = w->config.algorithm == NULL || kind != UW_ALLREDUCE_SWEEP;
    a->limit_us = WAIT_LIMIT_US;
    trouble_draw_link(&rng, &bad_links, &w->impairment);
    bool cells = trouble_chance(&rng, 0.3f);
    uint32_t left = cells ? uw_rng_u32(&rng) : UINT32_MAX;
    w->config.mode = cells ? UW_NODE_HIERARCHICAL : UW_NODE_ALLREDUCE;
    w->config.head_weight = 1;
    average_world_mix(a, rules[uw_rng_below(&of_rules, RULES_N)]);
    if (trouble_chance(&of_rules, 0.4f)) {
        average_world_stream(a, trouble_chance(&of_rules, 0.7f) ? UINT32_MAX
                                                                 : uw_rng_u32(&of_rules));
    }
    uint32_t events = uw_rng_below(&rng, EVENTS_MAX + 1u);
    bool hear = trouble_chance(&of_rules, 0.6f), apart = !hear;
    uint32_t from = uw_rng_below(&of_rules, events + 1u);
    for (uint32_t i = 0; i < n; i++) {
        world_up_with(w, i, config_of(a, i, left));
    }
    if (!hear && from == 0) {
        trouble_draw_reach(&of_rules, w, MTU_BYTES);
    }
    average_world_run(a, 2000000);
    for (uint32_t e = 0; e < events; e++) {
        if (!hear && e + 1u == from) {
            trouble_draw_reach(&of_rules, w, MTU_BYTES);
        }
        apart = one_event(a, &rng, t, left) || apart;
        uint32_t most_us = trouble_chance(&rng, 0.3f) ? 15000000 : 1500000;
        average_world_run(a, 100000u + uw_rng_below(&rng, most_us));
    }
    if (!hear) {
        go_on_apart(a, &rng, left);
        t->apart++;
    }
    check_end(a, &rng, left);
    if (!apart) {
        assert_int_equal(average_world_split(a), 0);    /* lost messages alone part nobody */
        t->whole++;
    }
    count(t, a);
    average_world_free(a);
}

static void test_averages_survive_random_trouble(void **state)
{
    (void)state;
    struct tally t = {0};
    trouble_seeds(COUNT_DEFAULT, scenario, &t);
    printf("%u scenarios, %u of them with bad links only, in %u some do not hear others: %u kills, "
           "%u times churn, %u pauses, %u partitions; %u rounds committed, %u of them streamed, "
           "%u given up, %u committed by some only; the longest wait was %.1f s\n",
           (unsigned)t.scenarios, (unsigned)t.whole, (unsigned)t.apart, (unsigned)t.kills,
           (unsigned)t.churns, (unsigned)t.pauses, (unsigned)t.partitions, (unsigned)t.committed,
           (unsigned)t.streamed, (unsigned)t.cut, (unsigned)t.split,
           (double)t.longest_us / 1e6);
    assert_true(t.committed > t.scenarios);
    assert_true(t.streamed > t.scenarios || t.scenarios < COUNT_DEFAULT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_averages_survive_random_trouble)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
