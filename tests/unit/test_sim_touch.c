/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that are put off as long as the world allows, their vectors spoiled meanwhile, against the
 * same steps computed in time: the same bits, whatever the exchange. */
#include "uwasa/sim_world.h"
#include "test_support.h"

#include <math.h>

#define SIZE_N 3000u
#define NODES 6u
#define STEPS 60u

static struct uw_segment segment = {.name = "w", .size_n = SIZE_N};

struct learner {
    float kept[SIZE_N];             /* x while it is spoiled */
    uint32_t done, behind;
    bool told;                      /* on_touch, in this step */
};

static struct learner learners[NODES];

static void note_touch(void *arg, uint32_t place)
{
    (void)arg;
    assert_false(learners[place].told);
    learners[place].told = true;
}

static void compute(struct uw_world_node *n, uint32_t step)
{
    for (uint32_t k = 0; k < SIZE_N; k++) {
        n->x[k] = 0.97f * n->x[k] + 1e-3f * (float)(n->place + k % 7u + step % 5u);
    }
}

/* Those before, and this one. */
static void catch_up(struct uw_world_node *n, struct learner *l)
{
    if (l->behind != 0) {
        memcpy(n->x, l->kept, sizeof l->kept);
    }
    for (uint32_t step = l->done - l->behind; step <= l->done; step++) {
        compute(n, step);
    }
    l->behind = 0;
}

static void put_off(struct uw_world_node *n, struct learner *l)
{
    if (l->behind++ == 0) {
        memcpy(l->kept, n->x, sizeof l->kept);
    }
    for (uint32_t k = 0; k < SIZE_N; k++) {
        n->x[k] = NAN;
    }
}

static int end_step(struct uw_world *w, struct uw_world_node *n, bool late, uint32_t *put_off_n)
{
    struct learner *l = &learners[n->place];
    if (n->restarted) {
        l->behind = 0;
    } else if (!n->waits) {
        bool now = !late || l->done + 1u == STEPS || uw_world_touches(w, n);
        if (now) {
            catch_up(n, l);
        } else {
            assert_false(l->told);
            put_off(n, l);
        }
        *put_off_n += !now;
    }
    l->told = false;
    l->done += !n->waits;
    const struct uw_node_progress p = {.step = l->done, .lr = n->waits ? 0.0f : 0.1f};
    int rc = uw_world_trained(w, n, &p, 0);
    l->told = uw_world_touches(w, n);       /* told is who has just become so */
    return rc;
}

/* Returns a figure that depends on every bit of every node. */
static double run(struct uw_world_config *c, bool late, uint32_t *put_off_n)
{
    struct uw_world w;
    struct uw_world_node *n;
    struct uw_error err = {.text = ""};
    double sum = 0.0;
    memset(learners, 0, sizeof learners);
    *put_off_n = 0;
    c->on_touch = note_touch;
    if (uw_world_open(&w, c, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(uw_world_meet(&w, 60000000u), UW_OK);
    for (uint32_t i = 0; i < NODES; i++) {
        learners[i].told = uw_world_touches(&w, &w.nodes[i]);
    }
    while ((n = uw_world_next(&w)) != NULL) {
        assert_true(end_step(&w, n, late, put_off_n) >= 0);
        if (learners[n->place].done == STEPS && !n->waits) {
            n->train_at_us = UINT64_MAX;
        }
    }
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(learners[i].done, STEPS);
        for (uint32_t k = 0; k < SIZE_N; k++) {
            sum += (double)w.nodes[i].x[k] * (1.0 + 1e-3 * i + 1e-7 * k);
        }
    }
    sum += 1e-9 * (double)uw_world_sent_bytes(&w);
    uw_world_close(&w);
    return sum;
}

/* least: steps that can be put off, at least; 0: none are. */
static void compare(struct uw_world_config *c, uint32_t least)
{
    uint32_t late_n, none_n;
    double late = run(c, true, &late_n), in_time = run(c, false, &none_n);
    assert_true(isfinite(late) != 0);
    assert_true(late == in_time);
    assert_int_equal(none_n, 0);
    assert_true(least == 0 ? late_n == 0 : late_n >= least);
}

static struct uw_sim_device devices[NODES];
static struct uw_sim_cell cells[2];
static struct uw_sim_fleet fleet;
static struct uw_params params;

static struct uw_world_config config_of(float *x, enum uw_node_mode mode,
                                        const struct uw_mix_rule *rule)
{
    memset(cells, 0, sizeof cells);
    for (uint32_t i = 0; i < NODES; i++) {
        devices[i] = (struct uw_sim_device){.up_bits_per_s = 100000000, .latency_us = 500,
                                            .step_us = 5000 + 700 * (i % 2u),
                                            .cell = i / (NODES / 2u)};
    }
    for (uint32_t i = 0; i < 2; i++) {
        cells[i].latency_us = 500;
    }
    fleet = (struct uw_sim_fleet){
        .devices = devices, .devices_n = NODES, .cells = cells, .cells_n = 2};
    for (uint32_t k = 0; k < SIZE_N; k++) {
        x[k] = 0.01f * (float)(k % 11u);
    }
    params = (struct uw_params){
        .x = x, .size_n = SIZE_N, .segments = &segment, .segments_n = 1, .hash = 7};
    return (struct uw_world_config){
        .fleet = &fleet, .params = &params, .mtu_bytes = 4096,
        .node = {.run = "touch", .mode = mode, .rule = rule, .period_steps = 6, .seed = 1}};
}

static void test_gossip_looks_at_chunks_and_at_the_end_of_a_round(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x, UW_NODE_GOSSIP, &uw_mix_qg);
    compare(&c, NODES * STEPS / 2u);
    for (uint32_t i = 0; i < NODES; i++) {
        devices[i].up_bits_per_s = 5000000;     /* a pull takes 4 steps and more */
    }
    compare(&c, NODES * STEPS / 4u);
    c.node.period_steps = 1;
    c.node.rule = NULL;
    compare(&c, 0);
    uw_test_release(x);
}

static void test_who_forgets_has_nothing_left_to_compute(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x, UW_NODE_GOSSIP, &uw_mix_none);
    const struct uw_sim_absence away = {.from_us = 97000, .to_us = 161000, .forgets = true};
    devices[2].absences = &away;
    devices[2].absences_n = 1;
    uint32_t put_off_n;
    double late = run(&c, true, &put_off_n);
    assert_true(put_off_n > NODES && late == run(&c, false, &put_off_n));
    uw_test_release(x);
}

static void test_averages_look_after_the_period_only(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x, UW_NODE_ALLREDUCE, &uw_mix_slowmo);
    compare(&c, NODES * (STEPS - STEPS / 6u));
    c = config_of(x, UW_NODE_HIERARCHICAL, &uw_mix_qg);
    compare(&c, NODES * (STEPS - STEPS / 6u));
    uw_test_release(x);
}

static void test_pairs_may_be_given_up_after_any_step(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x, UW_NODE_GOSSIP, &uw_mix_kgt);
    compare(&c, 0);
    uw_test_release(x);
}

static void test_formulas_know_when_they_look(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x, UW_NODE_GOSSIP, &uw_mix_qg);
    c.network = UW_WORLD_FORMULA;
    compare(&c, NODES * STEPS / 2u);
    c.node.mode = UW_NODE_ALLREDUCE;
    compare(&c, NODES * (STEPS - STEPS / 6u));
    c.node.mode = UW_NODE_HIERARCHICAL;
    compare(&c, NODES * (STEPS - STEPS / 6u));
    c.node.mode = UW_NODE_GOSSIP;
    c.node.rule = &uw_mix_kgt;
    c.node.schedule = uw_peer_schedule_find("matching");
    compare(&c, NODES * (STEPS - STEPS / 6u));
    uw_test_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gossip_looks_at_chunks_and_at_the_end_of_a_round),
        cmocka_unit_test(test_who_forgets_has_nothing_left_to_compute),
        cmocka_unit_test(test_averages_look_after_the_period_only),
        cmocka_unit_test(test_pairs_may_be_given_up_after_any_step),
        cmocka_unit_test(test_formulas_know_when_they_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
