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
#include "fault/trouble.h"

#define COUNT_DEFAULT 10u
#define EVENTS_MAX 8u

static const struct trouble_link bad_links = {40000, 30000, {0.6f, 0.3f}, {0.5f, 0.3f},
                                              {0.5f, 0.3f}, {0.3f, 0.1f}, true};

struct tally {
    uint32_t scenarios, kills, pauses, partitions;
    uint64_t loans;
};

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
        trouble_part(w, uw_rng_u32(rng));
        t->partitions++;
        break;
    case 4:
        trouble_cut(w, i, uw_rng_below(rng, w->n), UW_EMULATED_OUT);
        break;
    default:
        trouble_heal(w);
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
    trouble_heal(w);
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

static void scenario(uint64_t seed, void *arg)
{
    struct tally *t = arg;
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    uint32_t n = 2u + uw_rng_below(&rng, 4), samples_n = 4u + uw_rng_below(&rng, 12);
    uint32_t sample_n = 1u + uw_rng_below(&rng, trouble_chance(&rng, 0.2f) ? 512u : 60u);
    uint32_t slots_n = 1u + uw_rng_below(&rng, samples_n / 2u);
    struct shuffle_world *a =
        shuffle_world_new(n, samples_n, sample_n, slots_n, 200u + uw_rng_below(&rng, 400));
    struct world *w = a->w;
    w->seed = seed;
    trouble_draw_link(&rng, &bad_links, &w->impairment);
    for (uint32_t i = 0; i < n; i++) {
        w->nodes[i].clock_us = uw_rng_u32(&rng);
        a->nodes[i].rate = 0.2 * ((double)uw_rng_uniform(&rng) - 0.5);
        shuffle_world_up(a, i, true);
    }
    shuffle_world_run(a, uw_shuffle_hold_us(a->loan_us) + 2000000u);
    uint32_t events = uw_rng_below(&rng, EVENTS_MAX + 1u);
    for (uint32_t e = 0; e < events; e++) {
        one_event(a, &rng, t);
        uint32_t most_us = trouble_chance(&rng, 0.3f) ? 7000000 : 1500000;
        shuffle_world_run(a, 50000u + uw_rng_below(&rng, most_us));
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
    trouble_seeds(COUNT_DEFAULT, scenario, &t);
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
