/* SPDX-License-Identifier: Apache-2.0
 *
 * A machine with several addresses: the UDP link answers from the one that was asked. The tests of
 * 127.0.0.0/8 run anywhere; the others where UW_TEST_ADDRESSES is set, in a network namespace with
 * 10.9.0.1, .2 and .50, and fd00:9::1 (deprecated), ::2 and ::3 (several_addresses.sh). */
#include "udp_ends.h"

#define HUB 0u
#define PEER 1u

static uint16_t port_of(const struct udp_end *e)
{
    return (uint16_t)atoi(strrchr(e->address, ':') + 1);
}

static void open_ends(const char *hub, const char *peer, bool together)
{
    struct uw_link_udp_config c = {.bind = hub, .stations_n = 4, .together = together};
    assert_int_equal(udp_end_open(&ends[HUB], c, NULL), UW_OK);
    c = (struct uw_link_udp_config){.bind = peer, .stations_n = 4};
    assert_int_equal(udp_end_open(&ends[PEER], c, NULL), UW_OK);
}

static int receive(struct uw_link *l, uint16_t *from, uint8_t buf[8])
{
    int rc = UW_ERR_AGAIN;
    for (int i = 0; i < 100 && rc == UW_ERR_AGAIN; i++) {
        (void)is_readable(l, 20);
        rc = uw_link_recv(l, from, buf, 8);
    }
    return rc;
}

/* The peer says one thing to an address of the hub. Returns the peer's number at the hub. */
static uint16_t ask(const char *host)
{
    char address[UW_LINK_ADDRESS_BYTES];
    uint16_t station, from = UW_LINK_STATION_NONE;
    uint8_t buf[8];
    snprintf(address, sizeof address, "%s:%u", host, port_of(&ends[HUB]));
    assert_int_equal(uw_link_resolve(&ends[PEER].udp.link, address, &station), UW_OK);
    assert_int_equal(uw_link_send(&ends[PEER].udp.link, station, "asked", 5), UW_OK);
    assert_int_equal(receive(&ends[HUB].udp.link, &from, buf), 5);
    return from;
}

/* The hub says some things of one size, a block where it joins them; all come from this address. */
static void expect_answers_from(uint16_t peer, const char *host)
{
    char want[UW_LINK_ADDRESS_BYTES], text[UW_LINK_ADDRESS_BYTES];
    uint16_t from;
    uint8_t buf[8];
    snprintf(want, sizeof want, "%s:%u", host, port_of(&ends[HUB]));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(uw_link_send(&ends[HUB].udp.link, peer, "answer", 6), UW_OK);
    }
    (void)uw_link_step(&ends[HUB].udp.link, ends[HUB].udp.now_us);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(receive(&ends[PEER].udp.link, &from, buf), 6);
        assert_int_equal(uw_link_describe(&ends[PEER].udp.link, from, text), UW_OK);
        assert_string_equal(text, want);
    }
}

static void test_addresses_answer_leaves_from_the_one_that_was_asked(void **state)
{
    (void)state;
    static const char *const binds[] = {"0.0.0.0:0", ":0"};
    for (uint32_t i = 0; i < 4; i++) {
        open_ends(binds[i / 2u], "127.0.0.1:0", i % 2u != 0);
        expect_answers_from(ask("127.0.0.2"), "127.0.0.2");
        expect_answers_from(ask("127.0.0.3"), "127.0.0.3");     /* the one asked last */
        expect_answers_from(ask("127.0.0.1"), "127.0.0.1");
        assert_int_equal(teardown(state), 0);
    }
}

/* What a station asked is not the business of the next one in its slot. */
static void test_addresses_new_station_in_the_slot_is_sent_to_from_any(void **state)
{
    (void)state;
    struct uw_link_udp_config c = {.bind = "0.0.0.0:0", .stations_n = 1};
    assert_int_equal(udp_end_open(&ends[HUB], c, NULL), UW_OK);
    c.bind = "127.0.0.1:0";
    assert_int_equal(udp_end_open(&ends[PEER], c, NULL), UW_OK);
    uint16_t first = ask("127.0.0.2"), second;
    c.bind = "127.0.0.9:0";
    uw_link_deinit(&ends[PEER].udp.link);
    free(ends[PEER].memory);
    assert_int_equal(udp_end_open(&ends[PEER], c, NULL), UW_OK);
    assert_int_equal(uw_link_resolve(&ends[HUB].udp.link, ends[PEER].address, &second), UW_OK);
    assert_int_equal(first, second);
    expect_answers_from(second, "127.0.0.1");       /* the system's choice */
}

/* Somebody silent for long may have another way to this end now: the system chooses. */
static void test_addresses_long_silence_gives_the_choice_back(void **state)
{
    (void)state;
    open_ends("0.0.0.0:0", "127.0.0.1:0", false);
    (void)uw_link_step(&ends[HUB].udp.link, 1000000);
    uint16_t peer = ask("127.0.0.2");
    (void)uw_link_step(&ends[HUB].udp.link, 11000000);
    expect_answers_from(peer, "127.0.0.2");
    (void)uw_link_step(&ends[HUB].udp.link, 11000001);
    expect_answers_from(peer, "127.0.0.1");
}

static bool in_namespace(void)
{
    return getenv("UW_TEST_ADDRESSES") != NULL;
}

static void test_addresses_second_one_of_an_interface_answers(void **state)
{
    (void)state;
    if (!in_namespace()) {
        skip();
    }
    static const char *const binds[] = {"0.0.0.0:0", ":0"};
    for (uint32_t i = 0; i < 4; i++) {
        open_ends(binds[i / 2u], "10.9.0.2:0", i % 2u != 0);
        expect_answers_from(ask("10.9.0.50"), "10.9.0.50");
        expect_answers_from(ask("10.9.0.1"), "10.9.0.1");
        assert_int_equal(teardown(state), 0);
    }
}

static void test_addresses_stable_one_of_ipv6_answers_beside_a_temporary_one(void **state)
{
    (void)state;
    if (!in_namespace()) {
        skip();
    }
    for (uint32_t i = 0; i < 2; i++) {
        open_ends(":0", "[fd00:9::2]:0", i % 2u != 0);
        expect_answers_from(ask("[fd00:9::1]"), "[fd00:9::1]");
        expect_answers_from(ask("[fd00:9::3]"), "[fd00:9::3]");
        assert_int_equal(teardown(state), 0);
    }
}

/* An address that this end has no more: the answer leaves from another, and none is lost. */
static void test_addresses_one_that_is_gone_is_replaced(void **state)
{
    (void)state;
    if (!in_namespace()) {
        skip();
    }
    for (uint32_t i = 0; i < 2; i++) {
        open_ends(":0", "10.9.0.2:0", i % 2u != 0);
        uint16_t peer = ask("10.9.0.50");
        assert_int_equal(system("ip address del 10.9.0.50/32 dev lo"), 0);
        expect_answers_from(peer, "10.9.0.2");
        assert_int_equal(system("ip address add 10.9.0.50/32 dev lo"), 0);
        assert_int_equal(ends[HUB].udp.link.stats.dropped_n, 0);
        assert_int_equal(teardown(state), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_addresses_answer_leaves_from_the_one_that_was_asked,
                                  teardown),
        cmocka_unit_test_teardown(test_addresses_new_station_in_the_slot_is_sent_to_from_any,
                                  teardown),
        cmocka_unit_test_teardown(test_addresses_long_silence_gives_the_choice_back, teardown),
        cmocka_unit_test_teardown(test_addresses_second_one_of_an_interface_answers, teardown),
        cmocka_unit_test_teardown(
            test_addresses_stable_one_of_ipv6_answers_beside_a_temporary_one, teardown),
        cmocka_unit_test_teardown(test_addresses_one_that_is_gone_is_replaced, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
