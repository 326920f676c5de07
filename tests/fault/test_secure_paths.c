/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths that lose large datagrams without a word, in virtual time. */
#include "secure_world.h"

#define SECOND UINT64_C(1000000)
#define OVER UW_SECURE_OVERHEAD_BYTES
#define FULL (WORLD_MTU - OVER)
#define EXACT 33u               /* the search is that exact, and the suite adds less than OVER */

static struct world world;

/* Two nodes with a session, of which the first one's path carries so many bytes; 0: all. */
static void open_pair(struct node *pair[2], uint64_t seed, uint32_t mtu_bytes, float loss)
{
    world_open(&world, seed);
    for (uint16_t i = 0; i < 2; i++) {
        struct node_config c = {.paths = &uw_secure_paths,
                                .send = {.delay_us = 20000, .loss = loss,
                                         .mtu_bytes = i == 0 ? mtu_bytes : 0}};
        pair[i] = node_open(&world, i, &c);
    }
    assert_true(world_connect(&world, pair[0], 1, 60 * SECOND) != UINT64_MAX);
}

/* Let time pass, in which both say something now and then. */
static void talk(struct node *pair[2], uint64_t us)
{
    for (uint64_t end = world.now_us + us; world.now_us < end; world_run(&world, 400000)) {
        (void)node_say(pair[0], 1, 3);
        (void)node_say(pair[1], 0, 4);
    }
}

static void assert_carries(const struct node *n, uint32_t path_bytes)
{
    uint32_t datagram = n->dtls.link.mtu_bytes + OVER;
    print_message("a path of %u bytes carries datagrams of %u\n", path_bytes, datagram);
    assert_in_range(datagram, path_bytes - EXACT, path_bytes + OVER);
}

/* The largest message the link takes arrives. */
static void assert_largest_arrives(struct node *pair[2])
{
    uint8_t buf[WORLD_MTU] = {0}, in[WORLD_MTU];
    uint16_t from;
    uint32_t bytes = pair[0]->dtls.link.mtu_bytes;
    assert_int_equal(uw_link_send(&pair[0]->dtls.link, 1, buf, bytes), UW_OK);
    assert_int_equal(uw_link_send(&pair[0]->dtls.link, 1, buf, bytes + 1u), UW_ERR_TOOBIG);
    for (uint32_t i = 0; i < 50; i++) {
        world.now_us += 2000;
        uw_link_step(&pair[0]->dtls.link, world.now_us);
        uw_link_step(&pair[1]->dtls.link, world.now_us);
        int rc = uw_link_recv(&pair[1]->dtls.link, &from, in, sizeof in);
        if (rc == (int)bytes) {
            return;
        }
    }
    fail_msg("%u bytes do not arrive", bytes);
}

static void test_size_that_arrives_is_found_for_every_mtu(void **state)
{
    (void)state;
    for (uint32_t mtu = 300; mtu <= WORLD_MTU - OVER; mtu += 77) {
        struct node *pair[2];
        open_pair(pair, mtu, mtu, 0.0f);
        talk(pair, 8 * SECOND);
        assert_carries(pair[0], mtu);
        assert_largest_arrives(pair);
        assert_int_equal(pair[0]->events[UW_SECURE_PATH_NARROW], 1);
        assert_non_null(strstr(pair[0]->last_text[UW_SECURE_PATH_NARROW], "do not reach 1:"));
        /* The way back is another path. */
        assert_int_equal(pair[1]->dtls.link.mtu_bytes, FULL);
        assert_int_equal(pair[1]->events[UW_SECURE_PATH_NARROW], 0);
        world_close(&world);
    }
}

static void test_small_datagrams_are_sent_before_the_search_has_ended(void **state)
{
    (void)state;
    struct node *pair[2];
    open_pair(pair, 1, 700, 0.0f);
    talk(pair, 3 * SECOND / 2u);
    assert_true(pair[0]->dtls.link.mtu_bytes + OVER <= 700u + OVER);
    assert_largest_arrives(pair);
    world_close(&world);
}

static void test_losses_at_random_are_no_narrow_path(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(5);
    for (uint32_t run = 0; run < 40; run++) {
        struct node *pair[2];
        open_pair(pair, uw_rng_mix(seed, run), 0, 0.2f);
        talk(pair, 10 * SECOND);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(pair[i]->events[UW_SECURE_PATH_NARROW], 0);
            assert_int_equal(pair[i]->dtls.link.mtu_bytes, FULL);
        }
        world_close(&world);
    }
}

static void test_silent_peer_has_no_narrow_path(void **state)
{
    (void)state;
    struct node *pair[2];
    const struct uw_impairment silent = {.loss = 1.0f};
    open_pair(pair, 1, 500, 0.0f);
    assert_int_equal(uw_link_emulated_impair(&pair[1]->emulated, &silent, NULL), UW_OK);
    talk(pair, 20 * SECOND);
    assert_int_equal(pair[0]->events[UW_SECURE_PATH_NARROW], 0);
    assert_int_equal(pair[0]->dtls.link.mtu_bytes, FULL);
    world_close(&world);
}

static void test_path_that_changes_is_followed(void **state)
{
    (void)state;
    struct node *pair[2];
    struct uw_impairment how = {.delay_us = 20000};
    open_pair(pair, 1, 0, 0.0f);
    talk(pair, 10 * SECOND);
    assert_int_equal(pair[0]->dtls.link.mtu_bytes, FULL);
    how.mtu_bytes = 900;
    assert_int_equal(uw_link_emulated_impair(&pair[0]->emulated, &how, NULL), UW_OK);
    talk(pair, 140 * SECOND);
    assert_carries(pair[0], 900);
    how.mtu_bytes = 600;
    assert_int_equal(uw_link_emulated_impair(&pair[0]->emulated, &how, NULL), UW_OK);
    talk(pair, 140 * SECOND);
    assert_carries(pair[0], 600);
    assert_int_equal(pair[0]->events[UW_SECURE_PATH_NARROW], 2);
    how.mtu_bytes = 0;
    assert_int_equal(uw_link_emulated_impair(&pair[0]->emulated, &how, NULL), UW_OK);
    talk(pair, 140 * SECOND);
    assert_int_equal(pair[0]->dtls.link.mtu_bytes, FULL);
    assert_int_equal(pair[0]->events[UW_SECURE_PATH_WIDE], 1);
    world_close(&world);
}

/* A session that has ended narrows the link no longer. */
static void test_link_is_as_narrow_as_its_narrowest_session(void **state)
{
    (void)state;
    struct node *pair[2];
    open_pair(pair, 1, 700, 0.0f);
    talk(pair, 8 * SECOND);
    assert_carries(pair[0], 700);
    uw_secure_dtls_reset(&pair[0]->dtls, 1);
    world_run(&world, 10000);
    assert_int_equal(pair[0]->dtls.link.mtu_bytes, FULL);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_that_arrives_is_found_for_every_mtu),
        cmocka_unit_test(test_small_datagrams_are_sent_before_the_search_has_ended),
        cmocka_unit_test(test_losses_at_random_are_no_narrow_path),
        cmocka_unit_test(test_silent_peer_has_no_narrow_path),
        cmocka_unit_test(test_path_that_changes_is_followed),
        cmocka_unit_test(test_link_is_as_narrow_as_its_narrowest_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
