/* SPDX-License-Identifier: Apache-2.0
 *
 * What the link over Zephyr's sockets promises beyond the link contract, on a POSIX host. */
#include "test_support.h"

#include "uwasa/link_zsock.h"

#include <poll.h>

struct end {
    struct uw_link_zsock zsock;
    void *memory;
    char address[UW_LINK_ADDRESS_BYTES];
};

static struct end ends[4];

static int open_end(struct end *e, const char *bind, uint16_t stations_n, uint32_t mtu,
                    struct uw_error *err)
{
    struct uw_link_zsock_config c = {.bind = bind, .stations_n = stations_n, .mtu_bytes = mtu};
    c.memory_bytes = uw_link_zsock_bytes(&c);
    c.memory = e->memory = uw_test_block(c.memory_bytes);
    int rc = uw_link_zsock_init(&e->zsock, &c, err);
    if (rc == UW_OK) {
        assert_int_equal(uw_link_zsock_local(&e->zsock, e->address), UW_OK);
    }
    return rc;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        uw_link_deinit(&ends[i].zsock.link);
        if (ends[i].memory != NULL) {
            uw_test_release(ends[i].memory);
        }
        memset(&ends[i], 0, sizeof ends[i]);
    }
    return 0;
}

/* end `from` says a byte to `to`; the station number it has there, or what recv says. */
static int hear(struct end *from, struct end *to)
{
    uint16_t station, at = UW_LINK_STATION_NONE;
    uint8_t byte = 7;
    struct pollfd fd = {.fd = to->zsock.link.fd, .events = POLLIN};
    assert_int_equal(uw_link_resolve(&from->zsock.link, to->address, &station), UW_OK);
    assert_int_equal(uw_link_send(&from->zsock.link, station, &byte, 1), UW_OK);
    assert_int_equal(poll(&fd, 1, 2000), 1);
    int rc = uw_link_recv(&to->zsock.link, &at, &byte, 1);
    return rc == 1 ? at : rc;
}

static void test_zsock_bad_bind_gets_a_sentence(void **state)
{
    (void)state;
    struct uw_error err;
    const struct {
        const char *bind;
        int rc;
        const char *says;
    } cases[] = {
        {"4433", UW_ERR_INVALID, "\"4433\" is not an address"},
        {"127.0.0.1:65536", UW_ERR_INVALID, "is not an address"},
        {"board.local:4433", UW_ERR_NOTFOUND, "a number, not a name"},
        {"192.0.2.7:0", UW_ERR_IO, "does not have that address"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(open_end(&ends[0], cases[i].bind, 4, 0, &err), cases[i].rc);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_int_equal(uw_link_send(&ends[0].zsock.link, 0, "x", 1), UW_ERR_CLOSED);
        assert_int_equal(uw_link_zsock_local(&ends[0].zsock, ends[0].address), UW_ERR_CLOSED);
        teardown(NULL);
    }
    assert_int_equal(open_end(&ends[0], "127.0.0.1:0", 4, 0, &err), UW_OK);
    assert_int_equal(open_end(&ends[1], ends[0].address, 4, 0, &err), UW_ERR_IO);
    assert_non_null(strstr(err.text, "taken"));
    struct uw_link_zsock_config c = {.mtu_bytes = UW_LINK_ZSOCK_MTU_MAX + 1u};
    assert_true(uw_link_zsock_bytes(&c) == SIZE_MAX);
    assert_int_equal(uw_link_zsock_init(&ends[2].zsock, &c, &err), UW_ERR_INVALID);
    c = (struct uw_link_zsock_config){.stations_n = UINT16_MAX};
    assert_true(uw_link_zsock_bytes(&c) == SIZE_MAX);
    c.stations_n = 0;
    assert_int_equal(uw_link_zsock_init(&ends[2].zsock, &c, &err), UW_ERR_NOMEM);
}

static void test_zsock_tells_what_may_arrive_at_once(void **state)
{
    (void)state;
    uint8_t memory[8192] __attribute__((aligned(64)));
    struct uw_link_zsock_config c = {.bind = "127.0.0.1:0", .memory = memory,
                                     .memory_bytes = sizeof memory, .burst_bytes = 8192,
                                     .burst_n = 9};
    assert_int_equal(uw_link_zsock_init(&ends[0].zsock, &c, NULL), UW_OK);
    assert_int_equal(ends[0].zsock.link.burst_bytes, 8192);
    assert_int_equal(ends[0].zsock.link.burst_n, 9);
}

static void test_zsock_reaches_its_own_ip_version_and_no_names(void **state)
{
    (void)state;
    uint16_t station;
    assert_int_equal(open_end(&ends[0], NULL, 4, 0, NULL), UW_OK);
    assert_true(strncmp(ends[0].address, "0.0.0.0:", 8) == 0);
    assert_int_equal(uw_link_resolve(&ends[0].zsock.link, "gateway:4433", &station),
                     UW_ERR_NOTFOUND);
    assert_int_equal(uw_link_resolve(&ends[0].zsock.link, "[::1]:4433", &station),
                     UW_ERR_NOTFOUND);
    assert_int_equal(uw_link_resolve(&ends[0].zsock.link, "127.0.0.1:0", &station),
                     UW_ERR_INVALID);
    if (open_end(&ends[1], "[::1]:0", 4, 0, NULL) == UW_OK) {
        assert_int_equal(uw_link_resolve(&ends[1].zsock.link, "127.0.0.1:4433", &station),
                         UW_ERR_NOTFOUND);
        assert_int_equal(uw_link_resolve(&ends[1].zsock.link, "[fe80::1%255]:4433", &station),
                         UW_OK);
        assert_int_equal(uw_link_resolve(&ends[1].zsock.link, "[fe80::1%257]:4433", &station),
                         UW_ERR_NOTFOUND);      /* no cut to 1 */
    } else {
        print_message("IPv6 skipped: this machine has no ::1\n");
    }
}

static void test_zsock_held_stations_keep_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(open_end(&ends[i], "127.0.0.1:0", 2, 0, NULL), UW_OK);
    }
    int one = hear(&ends[1], &ends[0]);
    int two = hear(&ends[2], &ends[0]);
    assert_true(one >= 0 && two >= 0 && one != two);
    uw_link_hold(&ends[0].zsock.link, (uint16_t)one, true);
    assert_int_equal(hear(&ends[3], &ends[0]), two);
    uw_link_hold(&ends[0].zsock.link, (uint16_t)two, true);
    uint64_t dropped = ends[0].zsock.link.stats.dropped_n;
    assert_int_equal(hear(&ends[2], &ends[0]), UW_ERR_AGAIN);
    assert_int_equal(ends[0].zsock.link.stats.dropped_n, dropped + 1);
}

static void test_zsock_nobody_listening_is_no_error(void **state)
{
    (void)state;
    uint16_t station;
    uint8_t byte = 1;
    assert_int_equal(open_end(&ends[0], "127.0.0.1:0", 4, 0, NULL), UW_OK);
    assert_int_equal(open_end(&ends[1], "127.0.0.1:0", 4, 0, NULL), UW_OK);
    assert_int_equal(uw_link_resolve(&ends[0].zsock.link, ends[1].address, &station), UW_OK);
    uw_link_deinit(&ends[1].zsock.link);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(uw_link_send(&ends[0].zsock.link, station, &byte, 1), UW_OK);
        assert_int_equal(uw_link_recv(&ends[0].zsock.link, &station, &byte, 1), UW_ERR_AGAIN);
    }
}

static void test_zsock_oversized_datagram_is_reported_once(void **state)
{
    (void)state;
    uint8_t buf[200] = {0}, in[200];
    uint16_t station, from;
    assert_int_equal(open_end(&ends[0], "127.0.0.1:0", 4, 100, NULL), UW_OK);
    assert_int_equal(open_end(&ends[1], "127.0.0.1:0", 4, 200, NULL), UW_OK);
    assert_int_equal(uw_link_resolve(&ends[1].zsock.link, ends[0].address, &station), UW_OK);
    assert_int_equal(uw_link_send(&ends[1].zsock.link, station, buf, 101), UW_OK);
    assert_int_equal(uw_link_send(&ends[1].zsock.link, station, buf, 100), UW_OK);
    struct pollfd fd = {.fd = ends[0].zsock.link.fd, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 2000), 1);
    assert_int_equal(uw_link_recv(&ends[0].zsock.link, &from, in, sizeof in), UW_ERR_TOOBIG);
    assert_int_equal(uw_link_recv(&ends[0].zsock.link, &from, in, sizeof in), 100);
}

#define PROMISE(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(test_zsock_bad_bind_gets_a_sentence),
        PROMISE(test_zsock_tells_what_may_arrive_at_once),
        PROMISE(test_zsock_reaches_its_own_ip_version_and_no_names),
        PROMISE(test_zsock_held_stations_keep_their_place),
        PROMISE(test_zsock_nobody_listening_is_no_error),
        PROMISE(test_zsock_oversized_datagram_is_reported_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
