/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of training where averages are by broadcast: each node leaves at the moment at which it
 * knows that all have one model, and some are paused meanwhile. */
#include "fault/radio_world.h"

#include "node_parts/node_cast.h"

#include "uwasa/node_broadcast.h"
#include "uwasa/rng.h"

#define SECOND UINT64_C(1000000)
#define NODES 4u
#define MODEL_N 300u
#define SEED 74u                        /* the next ones had models apart: 74, 80, 86, 113 */
#define LIMIT_US (120 * SECOND)
#define CLOSE 1e-4                      /* of the largest parameter: what rounding leaves */

/* What a node's program would know. */
struct ending {
    uint32_t steps;                     /* to train */
    uint32_t agreed_n;                  /* nodes, when it left; 0: it left alone */
    uint32_t hidden;                    /* calls after it that others did not see all of it */
    bool stays;                         /* whatever it knows */
    bool over, left;
};

static struct ending ends[WORLD_MAX];

static bool trains(const struct world_node *it)
{
    return it->progress.step <= ends[it->place].steps;
}

static void train(struct world_node *it)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_rng_mix(it->world->seed * 64u + it->place, it->progress.step));
    for (uint32_t k = 0; trains(it) && k < it->world->size_n; k++) {
        it->x[k] += uw_rng_uniform(&rng) - 0.5f;
    }
    bool shown = !trains(it) && uw_node_cast_end(&it->node);
    ends[it->place].hidden += !trains(it) && !shown;
    it->progress.samples_per_s = shown ? 0.0f : 100.0f;
}

static bool is_alone(const struct world_node *it)
{
    return uw_membership_alive(&it->node.state->membership) == 0;
}

static void after(struct world_node *it, int flags)
{
    (void)flags;
    struct ending *e = &ends[it->place];
    it->progress.lr = trains(it) ? 0.1f : 0.0f;
    if (!trains(it) && !e->over) {
        e->agreed_n = uw_node_cast_agreed(&it->node);
        e->over = !e->stays && (e->agreed_n != 0 || is_alone(it));
    }
}

static struct radio_world *cell(float loss, uint64_t seed)
{
    struct radio_world *r = radio_world_new(NODES, MODEL_N, loss);
    r->w->seed = seed;
    r->w->config.mode = UW_NODE_BROADCAST;
    r->w->config.period_steps = 10;
    r->w->train_us = 20000;
    memset(ends, 0, sizeof ends);
    for (uint32_t i = 0; i < NODES; i++) {
        r->w->nodes[i].train = train;
        r->w->nodes[i].after = after;
        r->w->nodes[i].progress.samples_per_s = 100.0f;
        ends[i].steps = 200u + 3u * i;
    }
    return r;
}

/* Who is over says goodbye and trains and mixes no more.
 * Returns how many are not. */
static uint32_t let_go(struct world *w)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        if (ends[i].over && !ends[i].left && !w->nodes[i].paused) {
            w->nodes[i].trains = false;
            uw_node_leave(&w->nodes[i].node, w->now_us);
            ends[i].left = true;
        }
        left += !ends[i].left;
    }
    return left;
}

static void run(struct world *w, uint64_t us)
{
    uint64_t until_us = w->now_us + us;
    while (let_go(w) != 0 && w->now_us < until_us) {
        world_tick(w);
    }
}

static double apart(struct world *w, uint32_t a, uint32_t b)
{
    double most = 0.0, size = 0.0;
    for (uint32_t k = 0; k < w->size_n; k++) {
        double d = fabs((double)w->nodes[a].x[k] - (double)w->nodes[b].x[k]);
        most = d > most ? d : most;
        size = fabs((double)w->nodes[a].x[k]) > size ? fabs((double)w->nodes[a].x[k]) : size;
    }
    return most / size;
}

static uint32_t agreed_of(struct world *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        n += ends[i].agreed_n != 0;
    }
    return n;
}

/* All have left, and have one model. */
static void assert_one_model(struct world *w)
{
    assert_int_equal(let_go(w), 0);
    for (uint32_t i = 1; i < w->n; i++) {
        if (apart(w, 0, i) > CLOSE) {
            fail_msg("%s and %s end %g apart", w->nodes[0].name, w->nodes[i].name, apart(w, 0, i));
        }
    }
}

static void test_all_end_with_one_model_at_any_loss(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 3; k++) {
        struct radio_world *r = cell(0.1f * (float)k, 1);
        struct world *w = r->w;
        world_start(w);
        run(w, LIMIT_US);
        print_message("loss %.1f: over after %.1f s, %u agreed\n", 0.1 * k,
                      (double)w->now_us / 1e6, (unsigned)agreed_of(w));
        assert_one_model(w);
        for (uint32_t i = 0; i < NODES; i++) {
            assert_true(ends[i].hidden != 0 && ends[i].hidden < 250);
        }
        radio_world_free(r);
    }
}

/* From now on, each in turn, for up to so long. */
static void pause_some(struct world *w, struct uw_rng *rng, uint32_t most_us)
{
    uint64_t until_us = w->now_us + 15 * SECOND;
    while (w->now_us < until_us && let_go(w) != 0) {
        struct world_node *it = &w->nodes[uw_rng_below(rng, w->n)];
        it->paused = true;
        run(w, 100000u + uw_rng_below(rng, uw_rng_below(rng, 2) != 0 ? 600000u : most_us));
        it->paused = false;
        run(w, 50000u + uw_rng_below(rng, 1000000u));
    }
}

static struct radio_world *cell_with_pauses(uint64_t seed, uint32_t most_us)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    struct radio_world *r = cell(0.01f, seed);
    for (uint32_t i = 0; i < NODES; i++) {
        ends[i].steps = 150u + uw_rng_below(&rng, 150);
    }
    world_start(r->w);
    run(r->w, 2 * SECOND);
    pause_some(r->w, &rng, most_us);
    run(r->w, LIMIT_US);
    print_message("seed=%u: over after %.1f s, %u agreed\n", (unsigned)seed,
                  (double)r->w->now_us / 1e6, (unsigned)agreed_of(r->w));
    return r;
}

/* Pauses that end before a node is taken for dead. An average that is whole for some and cut for
 * others is nobody's last: who leaves has seen that all had one model before. */
static void test_pauses_at_the_end_split_no_group(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(SEED);
    for (uint32_t k = 0; k < (uw_test_slow() ? 4u : 40u); k++) {
        struct radio_world *r = cell_with_pauses(seed + k, 4000000);
        assert_one_model(r->w);
        radio_world_free(r);
    }
}

/* Who is taken for dead may end apart, but ends. */
static void test_nobody_waits_for_ever_for_who_is_paused_for_long(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(SEED);
    for (uint32_t k = 0; k < (uw_test_slow() ? 4u : 40u); k++) {
        struct radio_world *r = cell_with_pauses(seed + k, 14000000);
        assert_int_equal(let_go(r->w), 0);
        radio_world_free(r);
    }
}

static bool all_agree(struct world *w, uint32_t n)
{
    bool all = true;
    for (uint32_t i = 0; i < n; i++) {
        all = all && uw_node_cast_agreed(&w->nodes[i].node) == n;
    }
    return all;
}

static bool four_agree(struct world *w)
{
    return all_agree(w, NODES);
}

/* They are silent, but for who missed something they average again, and nobody waits in an earlier
 * turn for those who have gone on. */
static void test_where_all_stay_all_know_in_the_end(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(SEED);
    for (uint32_t k = 0; k < (uw_test_slow() ? 4u : 40u); k++) {
        struct uw_rng rng;
        uw_rng_seed(&rng, seed + k);
        struct radio_world *r = cell(0.05f, seed + k);
        for (uint32_t i = 0; i < NODES; i++) {
            ends[i].stays = true;
        }
        world_start(r->w);
        run(r->w, 2 * SECOND);
        pause_some(r->w, &rng, 14000000);
        world_until(r->w, four_agree, 20 * SECOND);
        print_message("seed=%u: all agree after %.1f s\n", (unsigned)(seed + k),
                      (double)r->w->now_us / 1e6);
        radio_world_free(r);
    }
}

static bool three_agree(struct world *w)
{
    return all_agree(w, NODES - 1u);
}

static bool node_3_is_here(struct world *w)
{
    return world_state(w, 0, w->nodes[NODES - 1u].name) == UW_MEMBER_ALIVE;
}

/* Those who have one model are silent. One that comes then is waited for and averaged with: whether
 * it begins with its own model, takes theirs over first, or has nothing to train any more. */
static void test_who_agree_are_silent_until_one_comes_late(void **state)
{
    (void)state;
    enum late { TRAINS, ADOPTS, HAS_ENDED, LATE_N };
    for (uint32_t late = TRAINS; late < LATE_N; late++) {
        struct radio_world *r = cell(0.02f, 1);
        struct world *w = r->w;
        for (uint32_t i = 0; i < NODES; i++) {
            ends[i].stays = true;
        }
        for (uint32_t i = 0; i < NODES - 1u; i++) {
            world_up(w, i);
        }
        world_until(w, three_agree, LIMIT_US);
        uint32_t before = world_counters(w, 0).averages_done;
        world_run(w, 5 * SECOND);
        assert_int_equal(world_counters(w, 0).averages_done, before);
        assert_true(three_agree(w));
        w->config.newcomer = late == ADOPTS;
        ends[NODES - 1u].steps = late == HAS_ENDED ? 0 : ends[NODES - 1u].steps;
        world_up(w, NODES - 1u);
        world_until(w, node_3_is_here, LIMIT_US);
        world_run(w, SECOND / 20u);
        assert_int_equal(uw_node_cast_agreed(&w->nodes[0].node), 0);
        world_until(w, four_agree, LIMIT_US);
        assert_int_equal(w->nodes[NODES - 1u].events[UW_NODE_ADOPTED], late == ADOPTS);
        for (uint32_t i = 1; i < NODES; i++) {
            assert_true(apart(w, 0, i) <= CLOSE);
        }
        radio_world_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_end_with_one_model_at_any_loss),
        cmocka_unit_test(test_pauses_at_the_end_split_no_group),
        cmocka_unit_test(test_nobody_waits_for_ever_for_who_is_paused_for_long),
        cmocka_unit_test(test_where_all_stay_all_know_in_the_end),
        cmocka_unit_test(test_who_agree_are_silent_until_one_comes_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
