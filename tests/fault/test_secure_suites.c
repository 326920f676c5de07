/* SPDX-License-Identifier: Apache-2.0
 *
 * Which cipher two ends of a secure channel agree on: the quick one where both have it, and always
 * one that both know. */
#include "secure_world.h"

#include "base/cpu.h"

#define ECDHE_CHACHA 0xccacu
#define PLAIN_CHACHA 0xccabu
#define DHE_CCM 0xc0a6u
#define DHE_GCM 0x00aau
#define UNKNOWN 0x1399u
#define CONNECT_US 60000000u

static struct world world;

/* Node 0 calls node 1: the suite that both end with, after a talk. */
static uint16_t agree(const struct node_config *caller, const struct node_config *called,
                      uint64_t seed)
{
    world_open(&world, seed);
    struct node *a = node_open(&world, 0, caller);
    struct node *b = node_open(&world, 1, called);
    assert_true(world_connect(&world, a, 1, CONNECT_US) != UINT64_MAX);
    expect_talk(&world, a, b);
    uint16_t suite = uw_secure_dtls_suite(&a->dtls, 1);
    assert_int_equal(uw_secure_dtls_suite(&b->dtls, 0), suite);
    assert_int_equal(uw_secure_dtls_suite(&b->dtls, 2), 0);
    world_close(&world);
    return suite;
}

static void test_ends_of_bulk_take_aes_where_the_processor_has_it(void **state)
{
    (void)state;
    const struct node_config bulk = {.bulk = true}, usual = {.bulk = false};
    assert_int_equal(agree(&usual, &usual, 1), ECDHE_CHACHA);
    assert_int_equal(agree(&bulk, &bulk, 2), uw_cpu_has_aes() ? DHE_CCM : ECDHE_CHACHA);
}

static void test_ends_of_different_preferences_agree_whoever_calls(void **state)
{
    (void)state;
    static const uint16_t board[] = {PLAIN_CHACHA, 0}, aes[] = {DHE_CCM, ECDHE_CHACHA, 0};
    const struct node_config ends[] = {
        {.bulk = false}, {.bulk = true}, {.suites = board}, {.suites = aes}};
    const uint16_t with_usual[] = {ECDHE_CHACHA, ECDHE_CHACHA, PLAIN_CHACHA, ECDHE_CHACHA};
    for (size_t i = 0; i < 4u; i++) {
        assert_int_equal(agree(&ends[0], &ends[i], 10 + i), with_usual[i]);
        assert_int_equal(agree(&ends[i], &ends[0], 20 + i), with_usual[i]);
    }
    assert_int_equal(agree(&ends[1], &ends[2], 30), PLAIN_CHACHA);
    assert_int_equal(agree(&ends[2], &ends[1], 31), PLAIN_CHACHA);
}

static void test_suites_that_the_library_lacks_are_passed_over(void **state)
{
    (void)state;
    static const uint16_t some[] = {UNKNOWN, ECDHE_CHACHA, 0}, none[] = {UNKNOWN, 0};
    static const uint16_t gcm[] = {DHE_GCM, 0};
    static const uint16_t nine[] = {DHE_CCM, DHE_CCM, DHE_CCM, DHE_CCM, DHE_CCM,
                                    DHE_CCM, DHE_CCM, DHE_CCM, DHE_CCM, 0};
    const struct node_config c = {.suites = some}, only_gcm = {.suites = gcm};
    assert_int_equal(agree(&c, &c, 40), ECDHE_CHACHA);
    assert_int_equal(agree(&only_gcm, &only_gcm, 41), DHE_GCM);
    world_open(&world, 42);
    struct node *n = node_open(&world, 0, &c);
    const uint16_t *bad[] = {none, nine};
    for (size_t i = 0; i < 2u; i++) {
        struct uw_secure_dtls s;
        struct uw_secure_dtls_config d = {.lower = &n->emulated.link, .identity = "x",
                                          .suites = bad[i]};
        d.memory_bytes = uw_secure_dtls_bytes(&d);
        d.memory = malloc(d.memory_bytes);
        assert_int_equal(uw_secure_dtls_init(&s, &d), UW_ERR_INVALID);
        uw_link_deinit(&s.link);
        free(d.memory);
    }
    world_close(&world);
}

/* Its messages are the longest, and are cut at the smallest datagrams. */
static void test_a_handshake_over_finite_fields_survives_loss_at_the_smallest_mtu(void **state)
{
    (void)state;
    static const uint16_t aes[] = {DHE_CCM, 0};
    for (uint64_t run = 0; run < 4u; run++) {
        const struct node_config c = {.suites = aes, .mtu_bytes = UW_SECURE_LOWER_MTU_MIN,
                                      .send = {.loss = 0.1f * (float)run, .delay_us = 5000}};
        assert_int_equal(agree(&c, &c, uw_rng_mix(uw_test_seed(3), run)), DHE_CCM);
    }
}

/* Who starts handshake after handshake gets cheap ones, until it has been quiet for a while. */
static void test_a_storm_of_handshakes_gets_no_dear_ones(void **state)
{
    (void)state;
    static const uint16_t aes[] = {DHE_CCM, ECDHE_CHACHA, 0};
    const struct node_config c = {.suites = aes};
    uint32_t dear = 0, cheap = 0;
    world_open(&world, 50);
    struct node *b = node_open(&world, 1, &c);
    for (uint32_t i = 0; i < 30u; i++) {
        struct node *a = node_open(&world, 0, &c);
        assert_true(world_connect(&world, a, 1, CONNECT_US) != UINT64_MAX);
        world_run(&world, 2000);
        dear += uw_secure_dtls_suite(&b->dtls, 0) == DHE_CCM;
        cheap += uw_secure_dtls_suite(&b->dtls, 0) == ECDHE_CHACHA;
        node_kill(a);
    }
    assert_int_equal(dear + cheap, 30);
    assert_true(dear >= 16 && cheap >= 4);
    world_run(&world, 2000000);
    struct node *a = node_open(&world, 0, &c);
    assert_true(world_connect(&world, a, 1, CONNECT_US) != UINT64_MAX);
    assert_int_equal(uw_secure_dtls_suite(&a->dtls, 1), DHE_CCM);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_of_bulk_take_aes_where_the_processor_has_it),
        cmocka_unit_test(test_ends_of_different_preferences_agree_whoever_calls),
        cmocka_unit_test(test_suites_that_the_library_lacks_are_passed_over),
        cmocka_unit_test(test_a_handshake_over_finite_fields_survives_loss_at_the_smallest_mtu),
        cmocka_unit_test(test_a_storm_of_handshakes_gets_no_dear_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
