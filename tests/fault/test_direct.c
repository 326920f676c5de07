/* SPDX-License-Identifier: Apache-2.0
 *
 * Averages that devices make among themselves (uwasa/node_direct.h): devices that are made up, in
 * the world of average_world.h, whose invariants hold in all of these too. */
#include "fault/average_world.h"

#include "node_direct.h"

#include <stdlib.h>

#define NODES 4u
#define SIZE_N 400u
#define GROUPS 64u
#define BY "by made-up"

/* What a device does wrong in its next round; then it is well again, unless `always`. */
enum flaw { WELL, FAILS_TO_BEGIN, FAILS, HANGS, DIFFERS };

struct device {
    struct uw_node_direct hooks;
    struct world_node *node;
    enum flaw flaw;
    bool always;
    uint32_t version, begins, settles, aborts, polls, unlike;
    struct group *group;            /* NULL: it is in none */
    uint32_t rank;
    bool bad;                       /* in the round at hand */
    float *result;
};

struct group {
    uint8_t id[UW_NODE_DIRECT_ID_BYTES];
    uint32_t ranks, left;           /* left: somebody has, nothing can be done any more */
    uint32_t begun[NODES];          /* rounds, by rank */
    float *x[NODES];                /* what a rank began with */
};

struct devices {
    struct average_world *a;
    struct device of[NODES];
    struct group groups[GROUPS];
    uint32_t ids;
};

static struct devices all;

static uint32_t version(void *arg)
{
    return ((struct device *)arg)->version;
}

static int make_id(void *arg, uint8_t id[UW_NODE_DIRECT_ID_BYTES])
{
    (void)arg;
    memset(id, (int)++all.ids, UW_NODE_DIRECT_ID_BYTES);
    return UW_OK;
}

static struct group *group_of(const struct uw_node_direct_round *r)
{
    struct group *g = all.groups;
    while (g->ranks != 0 && memcmp(g->id, r->id, sizeof g->id) != 0) {
        assert_true(++g < all.groups + GROUPS);
    }
    memcpy(g->id, r->id, sizeof g->id);
    assert_true(g->ranks == 0 || g->ranks == r->ranks);
    g->ranks = r->ranks;
    return g;
}

static int begin(void *arg, const struct uw_node_direct_round *r)
{
    struct device *d = arg;
    struct group *g = group_of(r);
    d->begins++;
    d->bad = d->flaw != WELL;
    if (d->flaw == FAILS_TO_BEGIN) {
        d->flaw = d->always ? d->flaw : WELL;
        return UW_ERR_IO;
    }
    assert_true(d->group == NULL || d->group == g || d->group->left == 0);
    d->group = g;
    d->rank = r->rank;
    d->unlike += !r->alike;
    if (r->alike) {
        assert_memory_equal(d->node->x, d->node->image, SIZE_N * sizeof(float));
    }
    g->x[r->rank] = g->x[r->rank] != NULL ? g->x[r->rank] : uw_test_floats(SIZE_N);
    memcpy(g->x[r->rank], d->node->image, SIZE_N * sizeof(float));
    g->begun[r->rank]++;
    return UW_OK;
}

static bool all_have_begun(const struct device *d)
{
    const struct group *g = d->group;
    bool all_have = g->left == 0;
    for (uint32_t i = 0; i < g->ranks; i++) {
        all_have = all_have && g->begun[i] >= g->begun[d->rank];
    }
    return all_have;
}

static int poll(void *arg)
{
    struct device *d = arg;
    struct group *g = d->group;
    d->polls++;
    if (d->bad && d->flaw != DIFFERS) {
        bool fails = d->flaw == FAILS;
        d->bad = !fails;
        d->flaw = d->always || !fails ? d->flaw : WELL;
        return fails ? UW_ERR_IO : UW_ERR_AGAIN;
    }
    if (!all_have_begun(d)) {
        return UW_ERR_AGAIN;
    }
    for (uint32_t k = 0; k < SIZE_N; k++) {
        float sum = 0.0f;
        for (uint32_t i = 0; i < g->ranks; i++) {
            sum += g->x[i][k];
        }
        d->result[k] = d->node->image[k] = sum * (1.0f / (float)g->ranks);
    }
    if (d->bad) {
        d->node->image[1] += 0.5f;
        d->flaw = d->always ? d->flaw : WELL;
    }
    return UW_OK;
}

static int settle(void *arg)
{
    struct device *d = arg;
    d->settles++;
    memcpy(d->node->x, d->result, SIZE_N * sizeof(float));
    return UW_OK;
}

static void abort_round(void *arg)
{
    struct device *d = arg;
    d->aborts++;
    if (d->group != NULL) {
        d->group->left++;
    }
    d->group = NULL;
    d->flaw = d->flaw == HANGS && !d->always ? WELL : d->flaw;
}

static struct uw_node_config config_of(uint32_t i, bool direct)
{
    struct uw_node_config c = world_config(all.a->w, i);
    c.direct = direct ? &all.of[i].hooks : NULL;
    return c;
}

/* n nodes with a device each; `without` is one that has none. */
static struct average_world *devices_new(uint32_t n)
{
    memset(&all, 0, sizeof all);
    all.a = average_world_new(n, SIZE_N, 1200);
    all.a->w->train_us = 20000;         /* five averages a second at most */
    for (uint32_t i = 0; i < n; i++) {
        struct device *d = &all.of[i];
        d->hooks = (struct uw_node_direct){.name = "made-up", .device = 7u + i,
                                           .version = version, .make_id = make_id, .begin = begin,
                                           .poll = poll, .settle = settle, .abort = abort_round,
                                           .arg = d};
        d->version = 3;
        d->node = &all.a->w->nodes[i];
        d->result = uw_test_floats(SIZE_N);
    }
    return all.a;
}

static void start(uint32_t without)
{
    for (uint32_t i = 0; i < all.a->w->n; i++) {
        world_up_with(all.a->w, i, config_of(i, i != without));
    }
}

static void end(void)
{
    assert_int_equal(average_world_split(all.a), 0);
    for (uint32_t i = 0; i < all.a->w->n; i++) {
        uw_test_release(all.of[i].result);
    }
    for (struct group *g = all.groups; g->ranks != 0; g++) {
        for (uint32_t i = 0; i < g->ranks; i++) {
            if (g->x[i] != NULL) {
                uw_test_release(g->x[i]);
            }
        }
    }
    average_world_free(all.a);
}

/* Did the last average of every node that is up go so? */
static bool last_by_devices(void)
{
    uint32_t n = 0, by = 0;
    for (uint32_t i = 0; i < all.a->w->n; i++) {
        const struct world_node *it = &all.a->w->nodes[i];
        n += it->up;
        by += it->up && strstr(it->text[UW_NODE_AVERAGED], BY) != NULL;
    }
    assert_true(by == 0 || by == n);
    return by == n;
}

static void test_devices_average_what_nodes_hand_over(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= NODES; n++) {
        devices_new(n);
        start(UINT32_MAX);
        average_world_run(all.a, 20000000);
        assert_true(all.a->committed_n > 50 && last_by_devices());
        for (uint32_t i = 0; i < n; i++) {
            const struct device *d = &all.of[i];
            assert_true(d->settles > 50 && d->unlike == 0 && d->aborts <= 1);
            assert_true(all.a->w->nodes[i].rounds >= d->settles);
        }
        assert_int_equal(all.ids, 1);   /* the same members need no other group */
        end();
    }
}

/* Nothing of a model goes over the link then. */
static void test_only_words_go_over_the_link(void **state)
{
    (void)state;
    devices_new(3);
    start(UINT32_MAX);
    average_world_run(all.a, 5000000);
    uint64_t bytes = world_counters(all.a->w, 1).averaged_bytes;
    average_world_run(all.a, 10000000);
    assert_true(last_by_devices());
    assert_int_equal(world_counters(all.a->w, 1).averaged_bytes, bytes);
    end();
}

/* The head adds what it has pulled from the other cell: x is ahead of its device. */
static void test_what_another_cell_brings_goes_to_the_device_first(void **state)
{
    (void)state;
    devices_new(4);
    all.a->w->config.mode = UW_NODE_HIERARCHICAL;
    for (uint32_t i = 0; i < 4; i++) {
        struct uw_node_config c = config_of(i, true);
        c.cell = i < 2 ? "a" : "b";
        c.head_weight = 1;
        world_up_with(all.a->w, i, c);
    }
    average_world_run(all.a, 20000000);
    uint32_t unlike = 0, alike = 0;
    for (uint32_t i = 0; i < 4; i++) {
        unlike += all.of[i].unlike;
        alike += all.of[i].settles;
    }
    assert_true(all.a->committed_n > 50 && last_by_devices());
    assert_true(unlike > 5 && alike > 50);
    end();
}

/* Momentum over rounds, which looks at x, and changes it: all devices still hold the same bits. */
static void test_rules_of_mixing_work_on_what_devices_average(void **state)
{
    (void)state;
    static const struct uw_mix_rule *const rules[] = {&uw_mix_qg, &uw_mix_slowmo};
    for (uint32_t i = 0; i < 2; i++) {
        devices_new(3);
        average_world_mix(all.a, rules[i]);
        start(UINT32_MAX);
        average_world_run(all.a, 10000000);
        assert_true(all.a->committed_n > 20 && last_by_devices());
        assert_int_equal(all.of[0].unlike, 0);
        end();
    }
}

static void check_link_alone(uint32_t without)
{
    start(without);
    average_world_run(all.a, 10000000);
    assert_true(all.a->committed_n > 20 && !last_by_devices());
    for (uint32_t i = 0; i < all.a->w->n; i++) {
        assert_int_equal(all.of[i].begins, 0);
    }
    end();
}

static void test_one_without_makes_all_take_the_link(void **state)
{
    (void)state;
    for (uint32_t without = 0; without < 3; without++) {
        devices_new(3);
        check_link_alone(without);
    }
}

static void test_two_on_one_device_take_the_link(void **state)
{
    (void)state;
    devices_new(3);
    all.of[2].hooks.device = all.of[0].hooks.device;
    check_link_alone(UINT32_MAX);
}

static void test_other_version_takes_the_link(void **state)
{
    (void)state;
    devices_new(3);
    all.of[1].version = 4;
    check_link_alone(UINT32_MAX);
}

static void test_named_algorithm_takes_the_link(void **state)
{
    (void)state;
    static const enum uw_allreduce_kind ring = UW_ALLREDUCE_RING;
    devices_new(3);
    all.a->w->config.algorithm = &ring;
    check_link_alone(UINT32_MAX);
}

/* Whatever goes wrong once: the next averages go over the link, later ones between devices. */
static void test_flaw_of_one_device_is_survived(void **state)
{
    (void)state;
    for (enum flaw flaw = FAILS_TO_BEGIN; flaw <= DIFFERS; flaw++) {
        for (uint32_t who = 0; who < 3; who++) {
            devices_new(3);
            start(UINT32_MAX);
            average_world_run(all.a, 5000000);
            uint32_t before = all.a->committed_n;
            assert_true(last_by_devices());
            all.of[who].flaw = flaw;
            average_world_run(all.a, 10000000);
            assert_true(all.a->committed_n > before + 5u && !last_by_devices());
            assert_true(all.a->longest_us < 8000000);
            for (uint32_t i = 0; i < 3; i++) {
                assert_true(all.of[i].aborts > 0 &&
                            all.a->w->nodes[i].events[UW_NODE_AVERAGE_CUT] == 1);
                assert_non_null(strstr(all.a->w->nodes[i].text[UW_NODE_AVERAGE_CUT],
                                       "over the network"));
            }
            average_world_run(all.a, 40000000);
            assert_true(last_by_devices());
            end();
        }
    }
}

/* Tried more and more seldom; averages go on. */
static void test_device_that_never_works_costs_little(void **state)
{
    (void)state;
    devices_new(3);
    all.of[1].flaw = FAILS;
    all.of[1].always = true;
    start(UINT32_MAX);
    all.a->w->train_us = 100000;
    average_world_run(all.a, 600000000);
    assert_true(all.a->committed_n > 400 && !last_by_devices());
    assert_in_range(all.of[1].begins, 2, 5);
    end();
}

static void test_rank_that_dies_in_a_round_is_survived(void **state)
{
    (void)state;
    for (uint32_t dead = 0; dead < 4; dead++) {
        devices_new(4);
        start(UINT32_MAX);
        average_world_run(all.a, 5000000);
        uint32_t before = all.a->committed_n, ids = all.ids;
        all.of[dead].flaw = HANGS;
        while (!all.of[dead].bad) {
            average_world_run(all.a, 1000);
        }
        world_down(all.a->w, dead);
        average_world_forget(all.a, dead);
        average_world_run(all.a, 30000000);
        assert_true(all.a->committed_n > before + 20u && last_by_devices());
        assert_true(all.ids > ids);     /* without it they are another group */
        end();
    }
}

static void test_rank_that_comes_back_makes_another_group(void **state)
{
    (void)state;
    devices_new(3);
    start(UINT32_MAX);
    average_world_run(all.a, 5000000);
    world_down(all.a->w, 1);
    average_world_forget(all.a, 1);
    all.of[1].group = NULL;
    all.of[1].flaw = WELL;
    struct uw_node_config c = config_of(1, true);
    c.incarnation += 1u;
    world_up_with(all.a->w, 1, c);
    average_world_run(all.a, 60000000);
    assert_true(all.ids >= 2 && last_by_devices());
    assert_true(all.of[1].group != NULL && all.of[1].group == all.of[0].group);
    end();
}

/* Messages that get lost, come twice, in another order, damaged. */
static void test_bad_network_changes_nothing(void **state)
{
    (void)state;
    devices_new(4);
    all.a->w->impairment = (struct uw_impairment){.loss = 0.1f, .duplicate = 0.05f,
                                                  .reorder = 0.1f, .corrupt = 0.05f,
                                                  .delay_us = 3000, .jitter_us = 5000};
    start(UINT32_MAX);
    average_world_run(all.a, 60000000);
    assert_true(all.a->committed_n > 20 && all.of[0].settles > 20);
    end();
}

static void test_config_needs_an_image(void **state)
{
    (void)state;
    devices_new(2);
    struct uw_node_config c = config_of(0, true);
    struct uw_error err;
    size_t bytes;
    c.link = &all.a->w->nodes[0].loopback.link;
    c.image = NULL;
    int rc = uw_node_measure(&c, &bytes, &err);
    assert_int_equal(rc, UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "image"));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_average_what_nodes_hand_over),
        cmocka_unit_test(test_only_words_go_over_the_link),
        cmocka_unit_test(test_what_another_cell_brings_goes_to_the_device_first),
        cmocka_unit_test(test_rules_of_mixing_work_on_what_devices_average),
        cmocka_unit_test(test_one_without_makes_all_take_the_link),
        cmocka_unit_test(test_two_on_one_device_take_the_link),
        cmocka_unit_test(test_other_version_takes_the_link),
        cmocka_unit_test(test_named_algorithm_takes_the_link),
        cmocka_unit_test(test_flaw_of_one_device_is_survived),
        cmocka_unit_test(test_device_that_never_works_costs_little),
        cmocka_unit_test(test_rank_that_dies_in_a_round_is_survived),
        cmocka_unit_test(test_rank_that_comes_back_makes_another_group),
        cmocka_unit_test(test_bad_network_changes_nothing),
        cmocka_unit_test(test_config_needs_an_image),
    };
    setenv("UWASA_TEST_IMAGES", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
