/* SPDX-License-Identifier: Apache-2.0
 *
 * Whom nodes ask at the start of a run: not all the same one, nor those who have learned nothing
 * where somebody else has. */
#include "fault/radio_world.h"

#define S UINT64_C(1000000)
#define NODES 8u
#define RUNS 8u
#define APART_US 10000u

static struct radio_world *all_know_all(uint32_t run)
{
    struct radio_world *r = radio_world_new(NODES, 10000, 0.0f);
    struct world *w = r->w;
    w->seed += run;
    for (uint32_t i = 0; i < NODES; i++) {
        w->nodes[i].trains = false;
    }
    world_start(w);
    world_until(w, world_all_know_all, 60u * S);
    world_run(w, 5u * S);
    return r;
}

/* All begin to train, one shortly after the other. Returns how many at most pull from one and the
 * same at first. */
static uint32_t rush(uint32_t run)
{
    struct radio_world *r = all_know_all(run);
    struct world *w = r->w;
    uint32_t asked[NODES] = {0}, n = 0, most = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        w->nodes[i].trains = true;
        w->nodes[i].train_at_us = w->now_us + i * APART_US;
    }
    for (uint64_t end_us = w->now_us + 30u * S; n < NODES && w->now_us < end_us;) {
        world_tick(w);
        for (uint32_t i = 0; i < NODES; i++) {
            const struct uw_node_pull *p = &w->nodes[i].node.state->pull;
            if (asked[i] == 0 && p->round != 0) {
                asked[i] = p->first.member_id;
                n++;
            }
        }
    }
    assert_int_equal(n, NODES);
    radio_world_free(r);
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t same = 0;
        for (uint32_t k = 0; k < NODES; k++) {
            same += asked[k] == asked[i];
        }
        most = same > most ? same : most;
    }
    return most;
}

/* Eight who draw one of seven each: 2.6 draw the same one, on average. */
static void test_the_first_to_show_something_is_not_asked_by_all(void **state)
{
    (void)state;
    uint32_t sum = 0;
    for (uint32_t run = 0; run < RUNS; run++) {
        sum += rush(run);
    }
    printf("%.2f of eight pull from the same one at first\n", (double)sum / RUNS);
    assert_true(sum <= 3u * RUNS);
}

static void has_learned_nothing(struct world_node *n)
{
    n->progress.step = 0;
}

/* Half of them are where they began when the others begin to pull. */
static void test_who_shows_its_start_is_hardly_asked(void **state)
{
    (void)state;
    uint32_t of_start = 0, n = 0;
    for (uint32_t run = 0; run < 50; run++) {
        struct world *w = world_new(7, 200, 0);
        w->seed += run;
        for (uint32_t i = 0; i < w->n; i++) {
            w->nodes[i].trains = false;
        }
        for (uint32_t i = 4; i < w->n; i++) {
            w->nodes[i].train = has_learned_nothing;
        }
        world_start(w);
        for (uint32_t i = 0; i < w->n; i++) {
            assert_int_equal(uw_gossip_publish(&w->nodes[i].node.state->gossip, i < 4, true),
                             UW_OK);
            w->nodes[i].progress.step = i < 4;
            uw_gossip_report(&w->nodes[i].node.state->gossip, &w->nodes[i].progress);
        }
        world_until(w, world_all_know_all, 60u * S);
        world_run(w, 5u * S);
        w->nodes[0].trains = true;
        w->nodes[0].train_at_us = w->now_us;
        const struct uw_node_state *s = w->nodes[0].node.state;
        while (s->pull.round == 0) {
            world_tick(w);
        }
        n++;
        for (uint32_t i = 4; i < w->n; i++) {
            of_start += s->pull.first.member_id == uw_name_id(w->nodes[i].name);
        }
        world_free(w);
    }
    printf("%u of %u pull from one that is where it began\n", (unsigned)of_start, (unsigned)n);
    assert_true(5u * of_start < n);     /* by their weights an eleventh */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_shows_its_start_is_hardly_asked),
        cmocka_unit_test(test_the_first_to_show_something_is_not_asked_by_all),
    };
    return cmocka_run_group_tests_name("gossip_start", tests, NULL, NULL);
}
