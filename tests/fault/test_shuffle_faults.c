/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples lent in random trouble, a thousand scenarios on virtual time. Each follows from its seed
 * alone: UWASA_TEST_SEED=N UWASA_TEST_COUNT=1 replays the one that failed.
 *
 * A scenario draws nodes, samples, the link (loss up to 30 %, duplicates, reordering, damage,
 * delay, rate), clocks that run up to 10 % fast or slow, and up to eight events: kill, return,
 * pause, partition, one-way cut, heal. No sample may be on two nodes at any moment; at the end all
 * is healed, and every sample must be drawn again by somebody, and loans go on. */
#include "fault/shuffle_world.h"

#include "uwasa/rng.h"

#define COUNT_DEFAULT 10u
#define EVENTS_MAX 8u

struct tally {
    uint32_t scenarios, kills, pauses, partitions;
    uint64_t loans;
};

static bool chance(struct uw_rng *rng, float p)
{
    return uw_rng_uniform(rng) < p;
}

static void draw_link(struct uw_rng *rng, struct uw_impairment *bad)
{
    bad->delay_us = 100u + uw_rng_below(rng, chance(rng, 0.2f) ? 40000u : 2000u);
    bad->jitter_us = chance(rng, 0.5f) ? uw_rng_below(rng, 30000u) : 0;
    bad->loss = chance(rng, 0.6f) ? 0.3f * uw_rng_uniform(rng) : 0.0f;
    bad->duplicate = chance(rng, 0.5f) ? 0.3f * uw_rng_uniform(rng) : 0.0f;
    bad->reorder = chance(rng, 0.5f) ? 0.3f * uw_rng_uniform(rng) : 0.0f;
    bad->corrupt = chance(rng, 0.3f) ? 0.1f * uw_rng_uniform(rng) : 0.0f;
    bad->rate_bits_per_s = chance(rng, 0.3f) ? 500000u + uw_rng_below(rng, 8000000u) : 0;
}

static void cut_between(struct world *w, uint32_t i, uint32_t k, uint8_t directions)
{
    if (i != k && w->nodes[i].up) {
        (void)uw_link_emulated_cut(&w->nodes[i].emulated, (uint16_t)k, directions);
    }
}

static void heal(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        for (uint32_t k = 0; k < w->n; k++) {
            cut_between(w, i, k, 0);
        }
        w->nodes[i].paused = false;
    }
}

static void partition(struct world *w, uint32_t side)
{
    for (uint32_t i = 0; i < w->n; i++) {
        for (uint32_t k = 0; k < w->n; k++) {
            if (((side >> i ^ side >> k) & 1u) != 0) {
                cut_between(w, i, k, UW_EMULATED_BOTH);
            }
        }
    }
}

static void one_event(struct shuffle_world *a, struct uw_rng *rng, struct tally *t)
{
    struct world *w = a->w;
    uint32_t i = uw_rng_below(rng, w->n);
    struct world_node *n = &w->nodes[i];
    switch (uw_rng_below(rng, 6)) {
    case 0:
    case 1:
        if (n->up) {
            n->paused = false;
            shuffle_world_down(a, i);
            t->kills++;
        } else {
            shuffle_world_up(a, i, true);
        }
        break;
    case 2:
        n->paused = !n->paused;
        t->pauses++;
        break;
    case 3:
        partition(w, uw_rng_u32(rng));
        t->partitions++;
        break;
    case 4:
        cut_between(w, i, uw_rng_below(rng, w->n), UW_EMULATED_OUT);
        break;
    default:
        heal(w);
        break;
    }
}

static uint64_t loans_of_all(struct shuffle_world *a)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < a->w->n; i++) {
        sum += a->w->nodes[i].up ? world_counters(a->w, i).samples_in : 0;
    }
    return sum;
}

/* Healed, and with everybody back: all samples are drawn by somebody, and loans go on. */
static void check_end(struct shuffle_world *a)
{
    struct world *w = a->w;
    heal(w);
    for (uint32_t i = 0; i < w->n; i++) {
        if (!w->nodes[i].up) {
            shuffle_world_up(a, i, true);
        }
    }
    shuffle_world_run(a, 3u * uw_shuffle_hold_us(a->loan_us));
    uint64_t from_us = w->now_us, before = loans_of_all(a);
    shuffle_world_run(a, 3u * uw_shuffle_hold_us(a->loan_us));
    for (uint32_t i = 0; i < w->n; i++) {
        for (uint32_t k = 0; k < a->samples_n; k++) {
            if (a->seen_us[i][k] < from_us) {
                fail_msg("sample %u of %s is lost", (unsigned)k, w->nodes[i].name);
            }
        }
    }
    assert_true(loans_of_all(a) > before);
}

static void scenario(uint64_t seed, struct tally *t)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    uint32_t n = 2u + uw_rng_below(&rng, 4), samples_n = 4u + uw_rng_below(&rng, 12);
    uint32_t sample_n = 1u + uw_rng_below(&rng, chance(&rng, 0.2f) ? 512u : 60u);
    uint32_t slots_n = 1u + uw_rng_below(&rng, samples_n / 2u);
    struct shuffle_world *a =
        shuffle_world_new(n, samples_n, sample_n, slots_n, 200u + uw_rng_below(&rng, 400));
    struct world *w = a->w;
    w->seed = seed;
    draw_link(&rng, &w->impairment);
    for (uint32_t i = 0; i < n; i++) {
        w->nodes[i].clock_us = uw_rng_u32(&rng);
        a->nodes[i].rate = 0.2 * ((double)uw_rng_uniform(&rng) - 0.5);
        shuffle_world_up(a, i, true);
    }
    shuffle_world_run(a, uw_shuffle_hold_us(a->loan_us) + 2000000u);
    uint32_t events = uw_rng_below(&rng, EVENTS_MAX + 1u);
    for (uint32_t e = 0; e < events; e++) {
        one_event(a, &rng, t);
        shuffle_world_run(a, 50000u + uw_rng_below(&rng, chance(&rng, 0.3f) ? 7000000 : 1500000));
    }
    check_end(a);
    t->scenarios++;
    t->loans += loans_of_all(a);
    shuffle_world_free(a);
}

static void test_a_sample_is_on_one_node_at_most_in_random_trouble(void **state)
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
    printf("%u scenarios: %u kills, %u pauses, %u partitions; %llu samples lent by those who were "
           "there at the end\n",
           (unsigned)t.scenarios, (unsigned)t.kills, (unsigned)t.pauses, (unsigned)t.partitions,
           (unsigned long long)t.loans);
    assert_true(t.loans > t.scenarios);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sample_is_on_one_node_at_most_in_random_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
