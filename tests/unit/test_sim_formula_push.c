/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulator's formula network: pushes, push-sum and relays. */
#include "formula_fixture.h"

#include "world/formula_priv.h"

#include "uwasa/hash.h"

static const struct uw_formula *state_of(const struct setup *t)
{
    return t->w.state;
}

static struct setup *kind_of(uint32_t n, enum uw_gossip_kind kind, const char *schedule)
{
    struct setup *t = setup_of(n, UW_NODE_GOSSIP, &uw_mix_none);
    t->config.node.gossip = kind;
    t->config.node.schedule = uw_peer_schedule_find(schedule);
    t->config.node.period_steps = 1;
    t->config.pull_waits = true;
    return t;
}

/* ---- pushes ---- */

/* Each of two sends to the other: both become the mean. */
static void test_a_push_is_averaged_with_what_the_receiver_has(void **state)
{
    (void)state;
    struct setup *t = kind_of(2, UW_GOSSIP_PUSH, "random");
    t->config.node.period_steps = 3;
    open_setup(t);
    train(t, 3);
    assert_close(t->w.nodes[0].x[1], 4.5, 1e-6);
    assert_close(t->w.nodes[1].x[1], 4.5, 1e-6);
    assert_int_equal(counted(t).pulls_done, 2);
    assert_close((double)uw_world_sent_bytes(&t->w), 2.0 * 1000.0, 1e-9);
    assert_int_equal(now_us(t), 3u * STEP_US + 1000u + 1000u + 1u);
    close_setup(t);
}

/* Two nodes push to node 0 during its three steps: the mean of three. Node 0 pushes to 1. */
static void test_all_that_arrive_count_as_much_as_the_own_model(void **state)
{
    (void)state;
    const uint32_t hub = uw_hash32_text("node0");
    const struct uw_peer_edge edges[] = {{{hub, uw_hash32_text("node1")}, 0.0f},
                                         {{hub, uw_hash32_text("node2")}, 0.0f}};
    const struct uw_peer_graph graph = {edges, 2};
    struct setup *t = kind_of(3, UW_GOSSIP_PUSH, "random");
    t->config.node.schedule = &uw_peer_schedule_graph;
    t->config.node.graph = &graph;
    t->config.node.period_steps = 3;
    open_setup(t);
    train(t, 3);
    assert_close(t->w.nodes[0].x[0], (3.0 + 6.0 + 9.0) / 3.0, 1e-5);
    assert_close(t->w.nodes[1].x[0], (3.0 + 6.0) / 2.0, 1e-5);
    assert_close(t->w.nodes[2].x[0], 9.0, 1e-5);
    close_setup(t);
}

/* ---- push-sum ---- */

struct sums {
    double mass, x;
};

/* Of all nodes, of what is on its way, and of what waits in inboxes. */
static struct sums sums_of(const struct setup *t)
{
    const struct uw_formula *f = state_of(t);
    struct sums s = {0.0, 0.0};
    for (uint32_t i = 0; i < f->nodes_n; i++) {
        const struct uw_formula_node *n = &f->nodes[i];
        s.mass += (double)n->mass;
        s.x += (double)n->mass * (double)n->w->x[0];
        if (n->inbox != UW_SNAPSHOT_NONE) {
            s.mass += (double)n->inbox_mass;
            s.x += (double)(n->inbox_mass * f->pool.x[n->inbox][0]);
        }
        if (n->pulling) {
            s.mass += (double)n->sent_mass;
            s.x += (double)(n->sent_mass * f->pool.x[n->pulled][0]);
        }
    }
    return s;
}

/* At every event, with and without waits and losses, by each schedule. */
static void expect_sums(const char *schedule, float loss, bool waits)
{
    struct setup *t = kind_of(7, UW_GOSSIP_PUSH_SUM, schedule);
    struct uw_world_node *n;
    t->config.pull_waits = waits;
    for (uint32_t i = 0; i < 7; i++) {
        t->devices[i].loss = loss;
        t->devices[i].step_us += 130u * i;
    }
    open_setup(t);
    for (uint32_t i = 0; i < 7; i++) {
        t->w.nodes[i].x[0] = (float)(i * i);
    }
    for (uint32_t events = 0; events < 2000; events++) {
        (void)go_on(t, 0.0f, &n);
        struct sums s = sums_of(t);
        assert_close(s.mass, 7.0, 1e-4);
        assert_close(s.x, 91.0, 1e-2);
    }
    for (uint32_t i = 0; i < 7; i++) {
        assert_close(t->w.nodes[i].x[0], 13.0, 1e-3);
    }
    assert_true((counted(t).pulls_cut != 0) == (loss > 0.0f));
    close_setup(t);
}

static void test_push_sum_keeps_the_weighted_mean_whatever_is_lost(void **state)
{
    static const char *const schedules[] = {"exponential", "random", "ring", "dissemination"};
    (void)state;
    for (uint32_t i = 0; i < 4u * 4u; i++) {
        expect_sums(schedules[i % 4u], i / 4u % 2u != 0 ? 0.3f : 0.0f, i / 8u != 0);
    }
}

/* Steps of nodes with other weights than 1 count alike: each adds 1 to the sum of all. */
static void test_steps_count_alike_in_push_sum(void **state)
{
    (void)state;
    struct setup *t = kind_of(5, UW_GOSSIP_PUSH_SUM, "random");
    struct uw_world_node *n;
    double steps = 0.0, least = 1.0;
    open_setup(t);
    for (uint32_t events = 0; events < 1000; events++) {
        (void)go_on(t, 1.0f, &n);
        steps += !n->waits;
    }
    for (uint32_t i = 0; i < 5; i++) {
        least = fmin(least, (double)state_of(t)->nodes[i].mass);
    }
    assert_true(least < 0.9);           /* weights differ by random choice */
    assert_close(sums_of(t).x, steps, 5.0);
    close_setup(t);
}

/* ---- relays ---- */

/* If nodes wait for pulls, node i shows 2^i, whatever it mixed: so a sum tells which models are in
 * it. Otherwise it shows what it has just mixed, and only the numbers of models are known. */
static void expect_relays(uint32_t n, const char *schedule, const struct uw_peer_graph *graph,
                          float loss, bool waits)
{
    struct setup *t = kind_of(n, UW_GOSSIP_RELAY, schedule);
    const uint32_t all = (1u << n) - 1u;
    uint32_t whole = 0;
    t->config.pull_waits = waits;
    t->config.node.graph = graph;
    for (uint32_t i = 0; i < n; i++) {
        t->devices[i].loss = loss;
        t->devices[i].step_us += 170u * i;
    }
    open_setup(t);
    for (uint32_t events = 0; events < 300u * n; events++) {
        struct uw_world_node *w = uw_world_next(&t->w);
        const struct uw_formula_node *node = &state_of(t)->nodes[w->place];
        bool mixed = w->waits && node->round % node->degree == 0;
        if (!w->waits) {
            w->x[0] = (float)(1u << w->place);
        }
        const struct uw_node_progress p = {.lr = w->waits ? 0.0f : 0.5f};
        assert_true(uw_world_trained(&t->w, w, &p, 0) >= 0);
        uint32_t models = 1, sum = 1u << w->place;
        for (uint32_t k = 0; k < node->degree; k++) {
            const struct uw_formula_edge *e = &state_of(t)->edges[node->first_edge + k];
            const float *x = e->got != UW_SNAPSHOT_NONE ? state_of(t)->pool.x[e->got] : NULL;
            uint32_t got = x != NULL ? (uint32_t)x[0] : 0;
            assert_int_equal(waits ? sum & got : 0, 0);         /* each model once */
            sum |= got;
            models += e->models;
        }
        assert_true(waits ? models == (uint32_t)__builtin_popcount(sum) : models <= n);
        whole += models == n;
        if (mixed && models == n) {
            assert_close((double)w->x[0], (double)all / (double)n, 1e-2);
        }
    }
    assert_true(whole > 50u * n);
    assert_true((counted(t).pulls_cut != 0) == (loss > 0.0f));
    close_setup(t);
}

static void test_relays_count_every_model_once_whatever_is_lost(void **state)
{
    struct uw_peer_edge star[8];
    const struct uw_peer_graph graph = {star, 8};
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "node%u", (unsigned)i + 1u);
        star[i] = (struct uw_peer_edge){{uw_hash32_text("node0"), uw_hash32_text(name)}, 0.0f};
    }
    for (uint32_t i = 0; i < 4; i++) {
        float loss = i % 2u != 0 ? 0.2f : 0.0f;
        expect_relays(2, "chain", NULL, loss, i / 2u != 0);
        expect_relays(9, "chain", NULL, loss, i / 2u != 0);
        expect_relays(12, "tree", NULL, loss, i / 2u != 0);
        expect_relays(9, "graph", &graph, loss, i / 2u != 0);
    }
}

static void test_relays_need_a_tree(void **state)
{
    static const char *const wrong[] = {"ring", "torus", "random", "matching"};
    struct uw_error err = {.text = ""};
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct setup *t = kind_of(9, UW_GOSSIP_RELAY, wrong[i]);
        assert_int_equal(uw_world_open(&t->w, &t->config, &err), UW_ERR_INVALID);
        assert_non_null(strstr(err.text, "tree"));
        close_setup(t);
    }
}

/* ---- losses in the other exchanges ---- */

/* A mean of x and the sum of m stay, and a part of the exchanges changes nothing. */
static void test_lost_averages_and_pairs_change_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct setup *t = setup_of(6, i == 0 ? UW_NODE_ALLREDUCE : UW_NODE_GOSSIP,
                                   i == 0 ? &uw_mix_none : &uw_mix_kgt);
        t->config.node.schedule = uw_peer_schedule_find("matching");
        for (uint32_t k = 0; k < 6; k++) {
            t->devices[k].loss = 0.4f;
        }
        open_setup(t);
        train(t, 150);
        float sum = 0.0f, balance = 0.0f;
        for (uint32_t k = 0; k < 6; k++) {
            sum += t->w.nodes[k].x[1];
            balance += i != 0 ? t->w.nodes[k].velocity[1] : 0.0f;
        }
        assert_close((double)sum / 6.0, 150.0 * 3.5, 1e-2);
        assert_close((double)balance, 0.0, 1e-3);
        uint32_t cut = counted(t).averages_cut, done = counted(t).averages_done;
        assert_int_equal(cut + done, 6u * 50u);
        assert_true(cut > 6u * 10u && done > 6u * 20u);
        close_setup(t);
    }
}

static void test_lost_pulls_change_nothing(void **state)
{
    (void)state;
    struct setup *t = setup_of(2, UW_NODE_GOSSIP, &uw_mix_none);
    t->devices[0].loss = 0.999f;
    t->config.pull_waits = true;
    open_setup(t);
    train(t, 30);
    assert_close((double)t->w.nodes[0].x[0], 30.0, 1e-4);
    assert_true(t->w.nodes[1].x[0] < 59.0f);
    assert_int_equal(counted(t).pulls_cut, 10);
    assert_int_equal(counted(t).pulls_done, 10);
    close_setup(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_push_is_averaged_with_what_the_receiver_has),
        cmocka_unit_test(test_all_that_arrive_count_as_much_as_the_own_model),
        cmocka_unit_test(test_push_sum_keeps_the_weighted_mean_whatever_is_lost),
        cmocka_unit_test(test_steps_count_alike_in_push_sum),
        cmocka_unit_test(test_relays_count_every_model_once_whatever_is_lost),
        cmocka_unit_test(test_relays_need_a_tree),
        cmocka_unit_test(test_lost_averages_and_pairs_change_nothing),
        cmocka_unit_test(test_lost_pulls_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
