/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulator's formula network under rules over pairs. */
#include "formula_fixture.h"

static void test_pairs_wait_for_two_models_and_keep_mean_and_balance(void **state)
{
    (void)state;
    struct setup *t = setup_of(6, UW_NODE_GOSSIP, &uw_mix_kgt);
    t->config.node.schedule = uw_peer_schedule_find("matching");
    open_setup(t);
    train(t, 9);
    /* Rounds of three steps, 1 ms and 2 * 1 ms: the three pairs of a round wait as long. */
    assert_int_equal(now_us(t), 3u * 6u * STEP_US);
    assert_int_equal(counted(t).averages_done, 3u * 6u);
    assert_close((double)uw_world_sent_bytes(&t->w), 3.0 * 6.0 * 2000.0, 1e-9);
    float sum = 0.0f, balance = 0.0f, size = 0.0f;
    for (uint32_t i = 0; i < 6; i++) {
        sum += t->w.nodes[i].x[1];
        balance += t->w.nodes[i].velocity[1];
        size += fabsf(t->w.nodes[i].velocity[1]);
    }
    assert_close(sum / 6.0f, 9.0f * 3.5f, 1e-4);
    assert_close(balance, 0.0f, 1e-5);
    assert_true(size > 1.0f);
    close_setup(t);
}

/* The two of the first pair by hand: x to the mean, m by half the difference of mean gradients. */
static void test_a_pair_is_mixed_as_the_rule_says(void **state)
{
    (void)state;
    struct setup *t = setup_of(2, UW_NODE_GOSSIP, &uw_mix_kgt);
    t->config.node.schedule = uw_peer_schedule_find("matching");
    open_setup(t);
    train(t, 3);
    /* z = -(i + 1) 3 / (0.5 * 3) = -2 and -4. */
    assert_close(t->w.nodes[0].x[2], 4.5f, 1e-6);
    assert_close(t->w.nodes[1].x[2], 4.5f, 1e-6);
    assert_close(t->w.nodes[0].velocity[2], 0.5f * (-4.0f + 2.0f), 1e-6);
    assert_close(t->w.nodes[1].velocity[2], 0.5f * (-2.0f + 4.0f), 1e-6);
    close_setup(t);
}

/* With an odd number somebody rests, and goes on at once. At the end all average exactly; who has
 * fewer steps to do, after a run was resumed, is not waited for until then. */
static void agree_at_the_end(const uint32_t steps[5])
{
    struct setup *t = setup_of(5, UW_NODE_GOSSIP, &uw_mix_kgt);
    uint32_t done[5] = {0}, averages = 0;
    float sum = 0.0f;
    bool asked[5] = {false};
    struct uw_world_node *n;
    t->config.node.schedule = uw_peer_schedule_find("matching");
    open_setup(t);
    while ((n = uw_world_next(&t->w)) != NULL) {
        bool trains = !n->waits && done[n->place] < steps[n->place];
        const struct uw_node_progress p = {.lr = trains ? 0.5f : 0.0f};
        n->x[0] += trains ? (float)n->place : 0.0f;
        done[n->place] += trains;
        int flags = uw_world_trained(&t->w, n, &p, 0);
        averages += (flags & UW_NODE_ROUND) != 0 && asked[n->place];
        if (done[n->place] == steps[n->place] && !n->waits) {
            n->train_at_us = asked[n->place] ? UINT64_MAX : n->train_at_us;
            uw_world_agree(&t->w, n);
            asked[n->place] = true;
        }
    }
    assert_int_equal(averages, 5);
    for (uint32_t i = 0; i < 5; i++) {
        sum += (float)(steps[i] * i);
    }
    for (uint32_t i = 0; i < 5; i++) {
        assert_close(t->w.nodes[i].x[0], sum / 5.0f, 1e-5);
    }
    close_setup(t);
}

static void test_pairs_agree_at_the_end(void **state)
{
    (void)state;
    agree_at_the_end((const uint32_t[]){7, 7, 7, 7, 7});
    agree_at_the_end((const uint32_t[]){9, 8, 9, 8, 9});
    agree_at_the_end((const uint32_t[]){2, 11, 12, 11, 2});
}

static void add_bytes(void *arg, uint32_t place, const struct uw_node_event *event)
{
    uint64_t *bytes = arg;
    bytes[event->peer[0] != '\0'] += event->bytes;
    (void)place;
}

/* A pair exchanges two vectors, the average at the end one, among two nodes as well. */
static void test_events_tell_two_models_of_a_pair_and_one_of_an_average(void **state)
{
    (void)state;
    struct setup *t = setup_of(2, UW_NODE_GOSSIP, &uw_mix_kgt);
    uint64_t bytes[2] = {0};
    struct uw_world_node *n;
    t->config.node.schedule = uw_peer_schedule_find("matching");
    t->config.on_event = add_bytes;
    t->config.event_arg = bytes;
    open_setup(t);
    while (counted(t).averages_done < 2u || t->w.nodes[0].waits || t->w.nodes[1].waits) {
        (void)go_on(t, 1.0f, &n);
    }
    for (uint32_t i = 0; i < 2; i++) {
        uw_world_agree(&t->w, &t->w.nodes[i]);
    }
    while (counted(t).averages_done < 4u) {
        (void)go_on(t, 1.0f, &n);
    }
    assert_int_equal(bytes[1], 2u * 2000u);
    assert_int_equal(bytes[0], 2u * 1000u);
    close_setup(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_wait_for_two_models_and_keep_mean_and_balance),
        cmocka_unit_test(test_a_pair_is_mixed_as_the_rule_says),
        cmocka_unit_test(test_pairs_agree_at_the_end),
        cmocka_unit_test(test_events_tell_two_models_of_a_pair_and_one_of_an_average),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
