/* SPDX-License-Identifier: Apache-2.0
 *
 * What the UDP link promises beyond the link contract: its address table, both IP versions, and
 * an operating system that reports trouble. */
#include "udp_ends.h"

#include "link/link_ip.h"

#include "uwasa/secure.h"

#include <pthread.h>
#include <time.h>

static int open_end(struct udp_end *e, const char *bind, uint16_t stations_n, uint32_t mtu,
                    struct uw_error *err)
{
    const struct uw_link_udp_config c = {.bind = bind, .stations_n = stations_n, .mtu_bytes = mtu};
    return udp_end_open(e, c, err);
}

static int receive(struct udp_end *e, uint16_t *from, uint8_t *byte)
{
    int rc = UW_ERR_AGAIN;
    for (int i = 0; i < 100 && rc == UW_ERR_AGAIN; i++) {
        (void)is_readable(&e->udp.link, 20);
        rc = uw_link_recv(&e->udp.link, from, byte, 1);
    }
    return rc;
}

/* end `from` says one byte to `to`; the station number it has there. */
static uint16_t hear(struct udp_end *from, struct udp_end *to, uint8_t byte)
{
    uint16_t station, at = UW_LINK_STATION_NONE;
    uint8_t in = 0;
    assert_int_equal(uw_link_resolve(&from->udp.link, to->address, &station), UW_OK);
    assert_int_equal(uw_link_send(&from->udp.link, station, &byte, 1), UW_OK);
    assert_int_equal(receive(to, &at, &in), 1);
    assert_int_equal(in, byte);
    return at;
}

static void test_udp_unknown_senders_recycle_the_station_silent_longest(void **state)
{
    (void)state;
    char text[UW_LINK_ADDRESS_BYTES];
    assert_int_equal(open_end(&ends[0], "127.0.0.1:0", 2, 0, NULL), UW_OK);
    for (size_t i = 1; i < 5; i++) {
        assert_int_equal(open_end(&ends[i], "127.0.0.1:0", 4, 0, NULL), UW_OK);
    }
    uint16_t one = hear(&ends[1], &ends[0], 1);
    uint16_t two = hear(&ends[2], &ends[0], 2);
    assert_int_not_equal(one, two);
    assert_int_equal(hear(&ends[1], &ends[0], 3), one);
    assert_int_equal(hear(&ends[3], &ends[0], 4), two);    /* 2 was silent longer than 1 */
    assert_int_equal(uw_link_describe(&ends[0].udp.link, two, text), UW_OK);
    assert_string_equal(text, ends[3].address);
    uw_link_hold(&ends[0].udp.link, one, true);
    assert_int_equal(hear(&ends[2], &ends[0], 5), two);    /* 1 is older now, but held */
    uw_link_hold(&ends[0].udp.link, two, true);
    uint16_t station;
    assert_int_equal(uw_link_resolve(&ends[0].udp.link, ends[4].address, &station), UW_ERR_FULL);
    uint64_t dropped = ends[0].udp.link.stats.dropped_n;
    assert_int_equal(uw_link_resolve(&ends[4].udp.link, ends[0].address, &station), UW_OK);
    assert_int_equal(uw_link_send(&ends[4].udp.link, station, "x", 1), UW_OK);
    uint8_t byte;
    assert_true(is_readable(&ends[0].udp.link, 2000));
    assert_int_equal(uw_link_recv(&ends[0].udp.link, &station, &byte, 1), UW_ERR_AGAIN);
    assert_int_equal(ends[0].udp.link.stats.dropped_n, dropped + 1);
    assert_true(uw_link_hold(&ends[0].udp.link, two, false));
    assert_int_equal(hear(&ends[4], &ends[0], 6), two);
}

static void test_udp_any_address_hears_both_ip_versions(void **state)
{
    (void)state;
    uint16_t port = 0;
    char text[UW_LINK_ADDRESS_BYTES];
    assert_int_equal(open_end(&ends[0], NULL, 4, 0, NULL), UW_OK);
    port = (uint16_t)atoi(strrchr(ends[0].address, ':') + 1);
    assert_true(port != 0);
    snprintf(ends[0].address, sizeof ends[0].address, "127.0.0.1:%u", port);
    assert_int_equal(open_end(&ends[1], "127.0.0.1:0", 4, 0, NULL), UW_OK);
    uint16_t station = hear(&ends[1], &ends[0], 7);
    assert_int_equal(uw_link_describe(&ends[0].udp.link, station, text), UW_OK);
    assert_string_equal(text, ends[1].address);     /* not as ::ffff:127.0.0.1 */
    uint16_t at;
    uint8_t byte;
    assert_int_equal(uw_link_send(&ends[0].udp.link, station, "y", 1), UW_OK);
    assert_int_equal(receive(&ends[1], &at, &byte), 1);
    if (open_end(&ends[2], "[::1]:0", 4, 0, NULL) == UW_OK) {
        snprintf(ends[0].address, sizeof ends[0].address, "[::1]:%u", port);
        station = hear(&ends[2], &ends[0], 8);
        assert_int_equal(uw_link_describe(&ends[0].udp.link, station, text), UW_OK);
        assert_string_equal(text, ends[2].address);
        assert_int_equal(uw_link_resolve(&ends[2].udp.link, ends[1].address, &at),
                         UW_ERR_NOTFOUND);  /* an IPv6-only socket reaches no IPv4 host */
    } else {
        print_message("IPv6 skipped: this machine has no ::1\n");
    }
}

/* A resolver that answers nobody until the gate opens; names with an x do not exist. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool open;
    uint32_t inside, asked;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static int gated_resolver(const char *host, enum uw_ip_family family, struct uw_ip_address *a)
{
    pthread_mutex_lock(&gate.lock);
    gate.inside++;
    gate.asked++;
    while (!gate.open) {
        pthread_cond_wait(&gate.moved, &gate.lock);
    }
    gate.inside--;
    pthread_cond_broadcast(&gate.moved);
    pthread_mutex_unlock(&gate.lock);
    if (strchr(host, 'x') != NULL) {
        return UW_ERR_NOTFOUND;
    }
    return uw_ip_host_wait("127.0.0.1", family, a);
}

static void shut_gate(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.open = false;
    gate.asked = 0;
    pthread_mutex_unlock(&gate.lock);
    uw_ip_set_resolver(gated_resolver);
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.open = true;
    pthread_cond_broadcast(&gate.moved);
    while (gate.inside != 0) {
        pthread_cond_wait(&gate.moved, &gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
}

static int open_gate_teardown(void **state)
{
    open_gate();
    uw_ip_set_resolver(NULL);
    return teardown(state);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int resolve_soon(struct udp_end *e, const char *address, uint16_t *station)
{
    int rc = UW_ERR_AGAIN;
    for (int i = 0; i < 2000 && rc == UW_ERR_AGAIN; i++) {
        rc = uw_link_resolve(&e->udp.link, address, station);
        poll(NULL, 0, rc == UW_ERR_AGAIN ? 1 : 0);
    }
    return rc;
}

static void test_udp_name_that_takes_long_keeps_nobody_waiting(void **state)
{
    (void)state;
    uint16_t station;
    uint16_t named;
    char text[UW_LINK_ADDRESS_BYTES];
    assert_int_equal(open_end(&ends[0], "127.0.0.1:0", 4, 0, NULL), UW_OK);
    assert_int_equal(open_end(&ends[1], "127.0.0.1:0", 4, 0, NULL), UW_OK);
    assert_int_equal(open_end(&ends[2], "127.0.0.1:0", 4, 0, NULL), UW_OK);
    shut_gate();
    double start = seconds();
    for (int i = 0; i < 100; i++) {
        assert_int_equal(uw_link_resolve(&ends[0].udp.link, "slow.test:4433", &station),
                         UW_ERR_AGAIN);
        assert_int_equal(uw_link_resolve(&ends[2].udp.link, "slow.test:4433", &station),
                         UW_ERR_AGAIN);
    }
    /* Numbers need nobody, and a link that closes waits for no name. */
    assert_int_equal(uw_link_resolve(&ends[0].udp.link, ends[1].address, &station), UW_OK);
    uw_link_deinit(&ends[2].udp.link);
    assert_true(seconds() - start < 1.0);
    open_gate();
    assert_int_equal(resolve_soon(&ends[0], "slow.test:4433", &named), UW_OK);
    assert_int_equal(gate.asked, 1);
    assert_int_equal(uw_link_describe(&ends[0].udp.link, named, text), UW_OK);
    assert_string_equal(text, "127.0.0.1:4433");
    assert_int_equal(resolve_soon(&ends[0], "x.test:4433", &station), UW_ERR_NOTFOUND);
    assert_int_equal(gate.asked, 2);
}

static void test_udp_names_above_the_bound_wait_their_turn(void **state)
{
    (void)state;
    uint16_t station;
    char name[32];
    assert_int_equal(open_end(&ends[0], "127.0.0.1:0", 32, 0, NULL), UW_OK);
    shut_gate();
    for (uint32_t i = 0; i < 2u * UW_IP_LOOKUPS; i++) {
        snprintf(name, sizeof name, "host%u.test:%u", (unsigned)i, (unsigned)(1000u + i));
        assert_int_equal(uw_link_resolve(&ends[0].udp.link, name, &station), UW_ERR_AGAIN);
    }
    pthread_mutex_lock(&gate.lock);
    assert_true(gate.asked <= UW_IP_LOOKUPS);
    pthread_mutex_unlock(&gate.lock);
    open_gate();
    for (uint32_t i = 0; i < 2u * UW_IP_LOOKUPS; i++) {
        snprintf(name, sizeof name, "host%u.test:%u", (unsigned)i, (unsigned)(1000u + i));
        assert_int_equal(resolve_soon(&ends[0], name, &station), UW_OK);
    }
    assert_int_equal(gate.asked, 2u * UW_IP_LOOKUPS);
}

static void test_udp_system_resolver_knows_localhost(void **state)
{
    (void)state;
    uint16_t station;
    char text[UW_LINK_ADDRESS_BYTES];
    assert_int_equal(open_end(&ends[0], "127.0.0.1:0", 4, 0, NULL), UW_OK);
    int rc = UW_ERR_AGAIN;
    for (int i = 0; i < 10 && rc == UW_ERR_AGAIN; i++) {
        rc = resolve_soon(&ends[0], "localhost:4433", &station);
    }
    assert_int_equal(rc, UW_OK);
    assert_int_equal(uw_link_describe(&ends[0].udp.link, station, text), UW_OK);
    assert_string_equal(text, "127.0.0.1:4433");
}

static void test_udp_nobody_listening_is_no_error(void **state)
{
    (void)state;
    uint16_t station;
    uint8_t byte;
    assert_int_equal(open_end(&ends[0], "127.0.0.1:0", 4, 0, NULL), UW_OK);
    assert_int_equal(open_end(&ends[1], "127.0.0.1:0", 4, 0, NULL), UW_OK);
    assert_int_equal(uw_link_resolve(&ends[0].udp.link, ends[1].address, &station), UW_OK);
    uw_link_deinit(&ends[1].udp.link);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(uw_link_send(&ends[0].udp.link, station, &byte, 1), UW_OK);
        assert_int_equal(uw_link_recv(&ends[0].udp.link, &station, &byte, 1), UW_ERR_AGAIN);
    }
    assert_int_equal(uw_link_resolve(&ends[0].udp.link, "255.255.255.255:9", &station), UW_OK);
    assert_int_equal(uw_link_send(&ends[0].udp.link, station, &byte, 1), UW_OK);
}

static void test_udp_oversized_datagram_is_reported_once(void **state)
{
    (void)state;
    uint8_t buf[200] = {0}, in[200];
    uint16_t station, from;
    assert_int_equal(open_end(&ends[0], "127.0.0.1:0", 4, 100, NULL), UW_OK);
    assert_int_equal(open_end(&ends[1], "127.0.0.1:0", 4, 200, NULL), UW_OK);
    assert_int_equal(uw_link_resolve(&ends[1].udp.link, ends[0].address, &station), UW_OK);
    assert_int_equal(uw_link_send(&ends[1].udp.link, station, buf, 101), UW_OK);
    assert_int_equal(uw_link_send(&ends[1].udp.link, station, buf, 100), UW_OK);
    assert_true(is_readable(&ends[0].udp.link, 2000));
    assert_int_equal(uw_link_recv(&ends[0].udp.link, &from, in, sizeof in), UW_ERR_TOOBIG);
    assert_int_equal(uw_link_recv(&ends[0].udp.link, &from, in, sizeof in), 100);
}

static void test_udp_bad_bind_gets_a_sentence(void **state)
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
        {"[::1]4433", UW_ERR_INVALID, "is not an address"},
        {"192.0.2.7:0", UW_ERR_IO, "does not have that address"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(open_end(&ends[0], cases[i].bind, 4, 0, &err), cases[i].rc);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_int_equal(err.code, cases[i].rc);
        uw_link_deinit(&ends[0].udp.link);
        free(ends[0].memory);
        ends[0].memory = NULL;
    }
    assert_int_equal(open_end(&ends[0], "127.0.0.1:0", 4, 0, &err), UW_OK);
    assert_int_equal(open_end(&ends[1], ends[0].address, 4, 0, &err), UW_ERR_IO);
    assert_non_null(strstr(err.text, ends[0].address));
    assert_non_null(strstr(err.text, "taken"));
    struct uw_link_udp_config large = {.mtu_bytes = UW_LINK_UDP_MTU_MAX + 1u};
    assert_true(uw_link_udp_bytes(&large) == SIZE_MAX);
    assert_int_equal(uw_link_udp_init(&ends[2].udp, &large, &err), UW_ERR_INVALID);
    struct uw_link_udp_config small = {.bind = NULL};
    assert_int_equal(uw_link_udp_init(&ends[2].udp, &small, &err), UW_ERR_NOMEM);
}

static void open_secure(struct uw_secure_dtls *s, struct udp_end *e, void **memory)
{
    struct uw_secure_dtls_config c = {.lower = &e->udp.link, .identity = "udp", .key = {5}};
    c.memory_bytes = uw_secure_dtls_bytes(&c);
    c.memory = *memory = malloc(c.memory_bytes);
    assert_int_equal(uw_secure_dtls_init(s, &c), UW_OK);
}

/* Strangers may not push a peer out of the address table while its session lives. */
static void test_udp_station_of_a_session_is_held_and_given_back(void **state)
{
    (void)state;
    struct uw_secure_dtls s[2];
    void *memory[2];
    uint8_t byte = 1;
    uint16_t station, from, peer = UW_LINK_STATION_NONE;
    char text[UW_LINK_ADDRESS_BYTES];
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(open_end(&ends[i], "127.0.0.1:0", 2, 0, NULL), UW_OK);
    }
    open_secure(&s[0], &ends[0], &memory[0]);
    open_secure(&s[1], &ends[1], &memory[1]);
    assert_int_equal(uw_link_resolve(&s[1].link, ends[0].address, &station), UW_OK);
    for (int i = 0; i < 500 && peer == UW_LINK_STATION_NONE; i++) {
        struct pollfd fd = {.fd = s[0].link.fd, .events = POLLIN};
        (void)uw_link_send(&s[1].link, station, &byte, 1);
        poll(&fd, 1, 10);
        if (uw_link_recv(&s[0].link, &from, &byte, 1) == 1) {
            peer = from;
        }
        (void)uw_link_recv(&s[1].link, &from, &byte, 1);
    }
    assert_int_not_equal(peer, UW_LINK_STATION_NONE);
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 2; i < 5; i++) {
            uint16_t to;
            struct pollfd fd = {.fd = s[0].link.fd, .events = POLLIN};
            assert_int_equal(uw_link_resolve(&ends[i].udp.link, ends[0].address, &to), UW_OK);
            assert_int_equal(uw_link_send(&ends[i].udp.link, to, "noise", 5), UW_OK);
            assert_int_equal(poll(&fd, 1, 2000), 1);
            while (uw_link_recv(&s[0].link, &from, &byte, 1) >= 0) {
            }
        }
        assert_int_equal(uw_link_describe(&s[0].link, peer, text), UW_OK);
        assert_int_equal(strcmp(text, ends[1].address) == 0, round == 0);
        assert_int_equal(uw_secure_dtls_is_up(&s[0], peer), round == 0);
        /* Held by the session, not by the caller. */
        assert_false(uw_link_hold(&s[0].link, peer, false));
        uw_secure_dtls_reset(&s[0], peer);
    }
    for (size_t i = 0; i < 2; i++) {
        uw_link_deinit(&s[i].link);
        free(memory[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_udp_unknown_senders_recycle_the_station_silent_longest,
                                  teardown),
        cmocka_unit_test_teardown(test_udp_any_address_hears_both_ip_versions, teardown),
        cmocka_unit_test_teardown(test_udp_name_that_takes_long_keeps_nobody_waiting,
                                  open_gate_teardown),
        cmocka_unit_test_teardown(test_udp_names_above_the_bound_wait_their_turn,
                                  open_gate_teardown),
        cmocka_unit_test_teardown(test_udp_system_resolver_knows_localhost, teardown),
        cmocka_unit_test_teardown(test_udp_nobody_listening_is_no_error, teardown),
        cmocka_unit_test_teardown(test_udp_oversized_datagram_is_reported_once, teardown),
        cmocka_unit_test_teardown(test_udp_station_of_a_session_is_held_and_given_back, teardown),
        cmocka_unit_test_teardown(test_udp_bad_bind_gets_a_sentence, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
