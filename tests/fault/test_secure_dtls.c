/* SPDX-License-Identifier: Apache-2.0
 *
 * The secure channel over a bad network, and peers that vanish, restart or are too many. */
#include "secure_world.h"

static struct world world;
static const struct node_config plain_node;

static void test_dtls_connects_at_any_loss_up_to_40_percent(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(1);
    for (uint32_t percent = 0; percent <= 40; percent += 10) {
        for (uint32_t run = 0; run < 12; run++) {
            struct node_config c = {.send = {.loss = (float)percent / 100.0f, .delay_us = 10000}};
            world_open(&world, uw_rng_mix(seed, percent * 100 + run));
            struct node *a = node_open(&world, 0, &c);
            struct node *b = node_open(&world, 1, &c);
            assert_true(world_connect(&world, a, 1, 60000000) != UINT64_MAX);
            assert_true(uw_secure_dtls_is_up(&a->dtls, 1));
            expect_talk(&world, a, b);
            assert_int_equal(a->events[UW_SECURE_PEER_REFUSED], 0);
            world_close(&world);
        }
    }
}

static void test_dtls_survives_every_impairment_and_delivers_only_what_was_said(void **state)
{
    (void)state;
    struct node_config c = {.send = {.loss = 0.05f, .duplicate = 0.2f, .corrupt = 0.1f,
                                     .reorder = 0.2f, .delay_us = 5000, .jitter_us = 5000}};
    world_open(&world, uw_test_seed(2));
    struct node *a = node_open(&world, 0, &c);
    struct node *b = node_open(&world, 1, &c);
    assert_true(world_connect(&world, a, 1, 60000000) != UINT64_MAX);
    uint32_t accepted = 1;
    for (uint32_t i = 0; i < 1000; i++) {
        accepted += node_say(a, 1, (uint8_t)i) == UW_OK;
        world_run(&world, 2000);
    }
    world_run(&world, 100000);
    assert_int_equal(accepted, 1001);
    assert_true(b->received[0] > 700);
    assert_true(b->received[0] <= accepted); /* duplicates are not delivered twice */
    assert_true(a->emulated.stats.duplicated_n > 100 && a->emulated.stats.corrupted_n > 50);
    assert_int_equal(a->events[UW_SECURE_PEER_CLOSED] + b->events[UW_SECURE_PEER_CLOSED], 0);
    expect_talk(&world, a, b);
    world_close(&world);
}

/* Everything after the k-th datagram of either side is lost for a second, then the path heals. */
static void test_dtls_cut_after_any_datagram_recovers(void **state)
{
    (void)state;
    for (uint32_t side = 0; side < 2; side++) {
        for (uint32_t k = 1; k <= 10; k++) {
            char drop[16];
            struct node_config c[2] = {{.send = {.delay_us = 1000}}, {.send = {.delay_us = 1000}}};
            snprintf(drop, sizeof drop, "%u-", k);
            c[side].send.drop = drop;
            world_open(&world, 100 * side + k);
            struct node *a = node_open(&world, 0, &c[0]);
            struct node *b = node_open(&world, 1, &c[1]);
            (void)world_connect(&world, a, 1, 1000000);
            c[side].send.drop = NULL;
            struct node *cut = side == 0 ? a : b;
            assert_int_equal(uw_link_emulated_impair(&cut->emulated, &c[side].send, NULL), UW_OK);
            expect_talk(&world, a, b);
            assert_int_equal(a->events[UW_SECURE_PEER_REFUSED], 0);
            assert_int_equal(b->events[UW_SECURE_PEER_REFUSED], 0);
            world_close(&world);
        }
    }
}

/* Any single datagram lost, on either side: the timers mend it without a new session. */
static void test_dtls_any_one_datagram_lost_is_repeated(void **state)
{
    (void)state;
    for (uint32_t side = 0; side < 2; side++) {
        for (uint32_t k = 1; k <= 6; k++) {
            char drop[16];
            struct node_config c[2] = {{.send = {.delay_us = 1000}}, {.send = {.delay_us = 1000}}};
            snprintf(drop, sizeof drop, "%u", k);
            c[side].send.drop = drop;
            world_open(&world, 100 * side + k);
            struct node *a = node_open(&world, 0, &c[0]);
            struct node *b = node_open(&world, 1, &c[1]);
            assert_true(world_connect(&world, a, 1, 2000000) < 2000000);
            expect_talk(&world, a, b);
            assert_int_equal(a->dtls.stats.handshakes_n, 1);
            assert_int_equal(b->dtls.stats.handshakes_n, 1);
            world_close(&world);
        }
    }
}

static void test_dtls_both_calling_at_once_end_with_one_session(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(3);
    for (uint32_t run = 0; run < 40; run++) {
        struct node_config c = {.send = {.delay_us = 20000, .loss = run % 2 == 0 ? 0.0f : 0.25f}};
        world_open(&world, uw_rng_mix(seed, run));
        struct node *a = node_open(&world, 0, &c);
        struct node *b = node_open(&world, 1, &c);
        for (int i = 0; i < 3000 && !(uw_secure_dtls_is_up(&a->dtls, 1) &&
                                      uw_secure_dtls_is_up(&b->dtls, 0)); i++) {
            (void)node_say(a, 1, 1);
            (void)node_say(b, 0, 2);
            world_run(&world, 10000);
        }
        expect_talk(&world, a, b);
        if (run % 2 == 0) { /* without loss nothing is done twice */
            assert_int_equal(a->dtls.stats.handshakes_n, 1);
            assert_int_equal(b->dtls.stats.handshakes_n, 1);
            assert_int_equal(a->dtls.stats.failed_n + b->dtls.stats.failed_n, 0);
        }
        world_close(&world);
    }
}

static void test_dtls_restarted_peer_replaces_its_session_when_it_has_authenticated(void **state)
{
    (void)state;
    for (uint32_t run = 0; run < 4; run++) {
        struct node_config c = {.send = {.delay_us = 5000}};
        world_open(&world, run);
        struct node *a = node_open(&world, 0, &c);
        node_open(&world, 1, &c);
        /* Either side may have been the client of the old session. */
        struct node *caller = &world.node[run % 2];
        assert_true(world_connect(&world, caller, (uint16_t)(1 - run % 2), 1000000) != UINT64_MAX);
        expect_talk(&world, a, &world.node[1]);
        node_kill(&world.node[1]);
        world_run(&world, run < 2 ? 10000 : 30000000);
        assert_true(uw_secure_dtls_is_up(&a->dtls, 1));
        struct node *b = node_open(&world, 1, &c);
        uint32_t ups = a->events[UW_SECURE_PEER_UP];
        for (int i = 0; i < 500 && a->events[UW_SECURE_PEER_UP] == ups; i++) {
            (void)node_say(b, 0, 5);
            world_run(&world, 2000);
            assert_true(uw_secure_dtls_is_up(&a->dtls, 1)); /* at no moment without one */
        }
        assert_int_equal(a->events[UW_SECURE_PEER_UP], ups + 1);
        assert_non_null(strstr(a->last_text[UW_SECURE_PEER_UP], "restarted"));
        expect_talk(&world, a, b);
        world_close(&world);
    }
}

static void test_dtls_wrong_key_learns_nothing_and_is_named_once_per_interval(void **state)
{
    (void)state;
    struct node_config wrong = {.key = 8};
    world_open(&world, 4);
    struct node *a = node_open(&world, 0, &plain_node);
    struct node *bad = node_open(&world, 1, &wrong);
    struct node *good = node_open(&world, 2, &plain_node);
    for (int i = 0; i < 2500; i++) { /* 25 s */
        assert_int_equal(node_say(bad, 0, 1), UW_ERR_AGAIN);
        assert_int_equal(node_say(a, 1, 1), UW_ERR_AGAIN);
        world_run(&world, 10000);
    }
    assert_int_equal(a->received[1] + bad->received[0], 0);
    assert_int_equal(a->events[UW_SECURE_PEER_UP] + bad->events[UW_SECURE_PEER_UP], 0);
    assert_in_range(a->events[UW_SECURE_PEER_REFUSED], 1, 3);
    assert_in_range(bad->events[UW_SECURE_PEER_REFUSED], 1, 3);
    assert_string_equal(a->last_text[UW_SECURE_PEER_REFUSED],
                        "peer 1 does not hold this run's key");
    assert_true(a->dtls.stats.refused_n < 20); /* slowed down, so it costs little */
    assert_true(world_connect(&world, good, 0, 2000000) != UINT64_MAX);
    expect_talk(&world, a, good);
    world_close(&world);
}

static void test_dtls_wrong_run_is_refused_with_its_name(void **state)
{
    (void)state;
    struct node_config other = {.identity = "elsewhere"};
    world_open(&world, 5);
    struct node *a = node_open(&world, 0, &plain_node);
    struct node *b = node_open(&world, 1, &other);
    assert_true(world_connect(&world, b, 0, 3000000) == UINT64_MAX);
    assert_int_equal(a->events[UW_SECURE_PEER_UP] + b->events[UW_SECURE_PEER_UP], 0);
    assert_int_equal(a->events[UW_SECURE_PEER_REFUSED], 1);
    assert_int_equal(b->events[UW_SECURE_PEER_REFUSED], 1);
    assert_string_equal(a->last_text[UW_SECURE_PEER_REFUSED],
                        "peer 1 belongs to another run, not to \"fault\"");
    world_close(&world);
}

static void test_dtls_peer_that_never_answers_is_told_and_tried_again(void **state)
{
    (void)state;
    world_open(&world, 6);
    struct node *a = node_open(&world, 0, &plain_node);
    assert_true(world_connect(&world, a, 1, 20000000) == UINT64_MAX);
    assert_in_range(a->events[UW_SECURE_PEER_SILENT], 1, 4);
    struct node *b = node_open(&world, 1, &plain_node);
    assert_true(world_connect(&world, a, 1, 5000000) != UINT64_MAX);
    expect_talk(&world, a, b);
    world_close(&world);
}

static void test_dtls_too_many_peers_displace_the_one_silent_longest(void **state)
{
    (void)state;
    struct node_config few = {.sessions_n = 3, .handshakes_n = 2};
    world_open(&world, 7);
    struct node *a = node_open(&world, 0, &few);
    for (uint16_t i = 1; i < 4; i++) {
        node_open(&world, i, &plain_node);
        assert_true(world_connect(&world, &world.node[i], 0, 1000000) != UINT64_MAX);
        world_run(&world, 100000);
    }
    expect_talk(&world, a, &world.node[1]); /* 1 is fresh now, 2 is the oldest */
    node_open(&world, 4, &plain_node);
    assert_true(world_connect(&world, &world.node[4], 0, 1000000) != UINT64_MAX);
    world_run(&world, 100000);
    assert_true(uw_secure_dtls_is_up(&a->dtls, 1));
    assert_false(uw_secure_dtls_is_up(&a->dtls, 2));
    assert_true(uw_secure_dtls_is_up(&a->dtls, 3));
    assert_true(uw_secure_dtls_is_up(&a->dtls, 4));
    assert_int_equal(a->events[UW_SECURE_PEER_CLOSED], 1);
    assert_int_equal(world.node[2].events[UW_SECURE_PEER_CLOSED], 1); /* it was told */
    expect_talk(&world, a, &world.node[2]);     /* and may come back */
    world_close(&world);
}

static void test_dtls_seven_peers_at_once_all_connect_through_two_handshake_slots(void **state)
{
    (void)state;
    struct node_config few = {.handshakes_n = 2, .send = {.delay_us = 10000, .loss = 0.1f}};
    world_open(&world, uw_test_seed(8));
    struct node *a = node_open(&world, 0, &few);
    for (uint16_t i = 1; i < WORLD_NODES; i++) {
        node_open(&world, i, &few);
    }
    for (int round = 0; round < 2000; round++) {
        for (uint16_t i = 1; i < WORLD_NODES; i++) {
            (void)node_say(&world.node[i], 0, 1);
        }
        world_run(&world, 10000);
    }
    for (uint16_t i = 1; i < WORLD_NODES; i++) {
        expect_talk(&world, a, &world.node[i]);
    }
    world_close(&world);
}

/* Calls to peers that are gone do not keep out one that calls, nor one that is called. */
static void test_dtls_dead_peers_do_not_use_up_the_handshakes(void **state)
{
    (void)state;
    struct node_config few = {.handshakes_n = 4};
    world_open(&world, 11);
    struct node *a = node_open(&world, 0, &few);
    bool both = false;
    for (int i = 0; i < 1000 && !both; i++) {
        for (uint16_t dead = 3; dead < WORLD_NODES; dead++) {
            (void)node_say(a, dead, 1);
        }
        if (i == 300) {
            node_open(&world, 1, &plain_node);
            node_open(&world, 2, &plain_node);
        }
        if (i > 300) {
            (void)node_say(&world.node[1], 0, 1);
            (void)node_say(a, 2, 1);
        }
        world_run(&world, 20000);
        both = uw_secure_dtls_is_up(&a->dtls, 1) && uw_secure_dtls_is_up(&a->dtls, 2);
    }
    assert_true(both);
    world_close(&world);
}

static void test_dtls_reset_ends_the_session_at_both_ends(void **state)
{
    (void)state;
    world_open(&world, 9);
    struct node *a = node_open(&world, 0, &plain_node);
    struct node *b = node_open(&world, 1, &plain_node);
    assert_true(world_connect(&world, a, 1, 1000000) != UINT64_MAX);
    expect_talk(&world, a, b);
    assert_true(uw_link_step(&a->dtls.link, world.now_us) == UINT64_MAX); /* nothing to do */
    uw_secure_dtls_reset(&a->dtls, 1);
    uw_secure_dtls_reset(&a->dtls, 1);
    world_run(&world, 10000);
    assert_false(uw_secure_dtls_is_up(&a->dtls, 1));
    assert_false(uw_secure_dtls_is_up(&b->dtls, 0));
    assert_int_equal(b->events[UW_SECURE_PEER_CLOSED], 1);
    assert_true(world_connect(&world, b, 0, 1000000) != UINT64_MAX);
    expect_talk(&world, a, b);
    world_close(&world);
}

/* Both ends slept, or their clocks were set, in the middle of a handshake and of a session. */
static void test_dtls_clock_that_leaps_or_goes_back_costs_a_handshake_at_most(void **state)
{
    (void)state;
    const uint64_t day_us = 86400u * UINT64_C(1000000);
    for (uint64_t after_us = 0; after_us <= 20000; after_us += 2000) {
        struct node_config c = {.send = {.delay_us = 2000}};
        world_open(&world, uw_test_seed(1));
        struct node *a = node_open(&world, 0, &c);
        struct node *b = node_open(&world, 1, &c);
        assert_int_equal(node_say(a, 1, 1), UW_ERR_AGAIN);
        world_run(&world, after_us);
        world.now_us += day_us;
        assert_true(world_connect(&world, a, 1, 2000000) != UINT64_MAX);
        expect_talk(&world, a, b);
        uint64_t done_n = a->dtls.stats.handshakes_n;
        world.now_us += day_us;
        expect_talk(&world, a, b);
        uw_link_step(&a->dtls.link, world.now_us - day_us);
        expect_talk(&world, a, b);
        assert_int_equal(a->dtls.stats.handshakes_n, done_n);
        assert_int_equal(a->events[UW_SECURE_PEER_REFUSED] + b->events[UW_SECURE_PEER_REFUSED], 0);
        world_close(&world);
    }
}

static void test_dtls_smallest_lower_mtu_carries_the_handshake(void **state)
{
    (void)state;
    struct node_config small = {.mtu_bytes = UW_SECURE_LOWER_MTU_MIN};
    world_open(&world, 12);
    struct node *a = node_open(&world, 0, &small);
    struct node *b = node_open(&world, 1, &small);
    assert_int_equal(a->dtls.link.mtu_bytes, UW_SECURE_LOWER_MTU_MIN - UW_SECURE_OVERHEAD_BYTES);
    expect_talk(&world, a, b);
    assert_int_equal(a->emulated.stats.lost_n + b->emulated.stats.lost_n, 0);
    world_close(&world);
    small.mtu_bytes--;
    world_open(&world, 13);
    assert_int_equal(uw_link_loopback_init(&world.node[0].loopback, &world.hub, 0), UW_OK);
    struct uw_secure_dtls_config c = {.lower = &world.node[0].loopback.link, .identity = "x"};
    c.lower->mtu_bytes = small.mtu_bytes;
    assert_true(uw_secure_dtls_bytes(&c) == SIZE_MAX);
    uw_link_deinit(c.lower);
    world_close(&world);
}

static void test_dtls_configuration_is_checked(void **state)
{
    (void)state;
    world_open(&world, 10);
    struct node *n = node_open(&world, 0, &plain_node);
    struct uw_secure_dtls s;
    char large[UW_SECURE_IDENTITY_MAX + 2];
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    const char *bad[] = {NULL, "", large};
    for (size_t i = 0; i < 3; i++) {
        struct uw_secure_dtls_config c = {.lower = &n->emulated.link, .identity = bad[i]};
        assert_int_equal(uw_secure_dtls_init(&s, &c), UW_ERR_INVALID);
        uw_link_deinit(&s.link);
    }
    struct uw_secure_dtls_config c = {.lower = &n->emulated.link, .identity = large + 1};
    assert_int_equal(uw_secure_dtls_init(&s, &c), UW_ERR_NOMEM);
    uw_link_deinit(&s.link);
    c.lower = NULL;
    assert_int_equal(uw_secure_dtls_init(&s, &c), UW_ERR_INVALID);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtls_connects_at_any_loss_up_to_40_percent),
        cmocka_unit_test(test_dtls_survives_every_impairment_and_delivers_only_what_was_said),
        cmocka_unit_test(test_dtls_cut_after_any_datagram_recovers),
        cmocka_unit_test(test_dtls_any_one_datagram_lost_is_repeated),
        cmocka_unit_test(test_dtls_both_calling_at_once_end_with_one_session),
        cmocka_unit_test(test_dtls_restarted_peer_replaces_its_session_when_it_has_authenticated),
        cmocka_unit_test(test_dtls_wrong_key_learns_nothing_and_is_named_once_per_interval),
        cmocka_unit_test(test_dtls_wrong_run_is_refused_with_its_name),
        cmocka_unit_test(test_dtls_peer_that_never_answers_is_told_and_tried_again),
        cmocka_unit_test(test_dtls_too_many_peers_displace_the_one_silent_longest),
        cmocka_unit_test(test_dtls_seven_peers_at_once_all_connect_through_two_handshake_slots),
        cmocka_unit_test(test_dtls_dead_peers_do_not_use_up_the_handshakes),
        cmocka_unit_test(test_dtls_reset_ends_the_session_at_both_ends),
        cmocka_unit_test(test_dtls_clock_that_leaps_or_goes_back_costs_a_handshake_at_most),
        cmocka_unit_test(test_dtls_smallest_lower_mtu_carries_the_handshake),
        cmocka_unit_test(test_dtls_configuration_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
