/* SPDX-License-Identifier: Apache-2.0
 *
 * What the TCP link promises beyond the link contract: connections that settle, break and come
 * back, peers that restart, and strangers that say too little, too much or nonsense. */
#include "test_support.h"

#include "link/link_tcp_conn.h"
#include "wire/wire.h"

#include "uwasa/link_tcp.h"
#include "uwasa/rng.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ENDS 4u
#define TRIES 4000

struct end {
    struct uw_link_tcp tcp;
    void *memory;
    char address[UW_LINK_ADDRESS_BYTES];
};

static struct end ends[ENDS];
static uint64_t now_us;

static int open_end(struct end *e, const struct uw_link_tcp_config *like)
{
    struct uw_link_tcp_config c = *like;
    struct uw_error err;
    c.bind = c.bind != NULL ? c.bind : "127.0.0.1:0";
    c.memory_bytes = uw_link_tcp_bytes(&c);
    c.memory = e->memory = malloc(c.memory_bytes);
    assert_non_null(e->memory);
    int rc = uw_link_tcp_init(&e->tcp, &c, &err);
    if (rc == UW_OK) {
        assert_int_equal(uw_link_tcp_local(&e->tcp, e->address), UW_OK);
        (void)uw_link_step(&e->tcp.link, now_us);
    }
    return rc;
}

static void close_end(struct end *e)
{
    uw_link_deinit(&e->tcp.link);
    free(e->memory);
    memset(e, 0, sizeof *e);
}

static int setup(void **state)
{
    (void)state;
    now_us = 1000000;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENDS; i++) {
        close_end(&ends[i]);
    }
    return 0;
}

static const struct uw_link_tcp_config plain = {.mtu_bytes = 4096, .stations_n = 4};

static void pass_time(void)
{
    struct pollfd fds[ENDS];
    nfds_t n = 0;
    for (size_t i = 0; i < ENDS; i++) {
        if (ends[i].tcp.link.ops != NULL) {
            fds[n++] = (struct pollfd){.fd = ends[i].tcp.link.fd, .events = POLLIN};
        }
    }
    poll(fds, n, 2);
    now_us += 2000;
    for (size_t i = 0; i < ENDS; i++) {
        (void)uw_link_step(&ends[i].tcp.link, now_us);
    }
}

/* The next message at an end, waiting a bounded time for it. */
static int receive(struct end *e, uint16_t *from, void *buf, uint32_t cap)
{
    int rc = UW_ERR_AGAIN;
    for (int i = 0; i < TRIES && rc == UW_ERR_AGAIN; i++) {
        rc = uw_link_recv(&e->tcp.link, from, buf, cap);
        if (rc == UW_ERR_AGAIN) {
            pass_time();
        }
    }
    return rc;
}

static void expect_silence(struct end *e)
{
    uint8_t byte[64];
    uint16_t from;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(uw_link_recv(&e->tcp.link, &from, byte, sizeof byte), UW_ERR_AGAIN);
        pass_time();
    }
}

/* Send, letting everybody whose arrivals the caller does not want look at their events. */
static void say(struct end *from, uint16_t to, const void *buf, uint32_t bytes)
{
    uint8_t in[64];
    uint16_t who;
    int rc = UW_ERR_AGAIN;
    for (int i = 0; i < TRIES && rc == UW_ERR_AGAIN; i++) {
        rc = uw_link_send(&from->tcp.link, to, buf, bytes);
        for (size_t k = 0; k < ENDS && rc == UW_ERR_AGAIN; k++) {
            if (ends[k].tcp.link.ops != NULL) {
                assert_int_equal(uw_link_recv(&ends[k].tcp.link, &who, in, sizeof in),
                                 UW_ERR_AGAIN);
            }
        }
        if (rc == UW_ERR_AGAIN) {
            pass_time();
        }
    }
    assert_int_equal(rc, UW_OK);
}

static uint16_t resolve(struct end *e, const char *address)
{
    uint16_t station;
    assert_int_equal(uw_link_resolve(&e->tcp.link, address, &station), UW_OK);
    return station;
}

/* End `from` says a byte to `to`; returns the station it has there. */
static uint16_t hear(struct end *from, struct end *to, uint8_t byte)
{
    uint16_t at = UW_LINK_STATION_NONE;
    uint8_t in = 0;
    say(from, resolve(from, to->address), &byte, 1);
    assert_int_equal(receive(to, &at, &in, 1), 1);
    assert_int_equal(in, byte);
    return at;
}

/* Sockets of strangers. */

static int connect_raw(const struct end *e)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)atoi(strrchr(e->address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void greeting(uint8_t g[UW_TCP_GREETING_BYTES], uint16_t port, uint32_t id, uint32_t serial)
{
    memset(g, 0, UW_TCP_GREETING_BYTES);
    memcpy(g, "uwt1", 4);
    uw_put_u16(g + 4, port);
    uw_put_u32(g + 8, id);
    uw_put_u32(g + 16, serial);
    uw_put_u32(g + 20, 4096);
}

static int greet_raw(const struct end *e, uint16_t port, uint32_t id, uint32_t serial)
{
    uint8_t g[UW_TCP_GREETING_BYTES];
    int fd = connect_raw(e);
    greeting(g, port, id, serial);
    assert_int_equal(send(fd, g, sizeof g, MSG_NOSIGNAL), sizeof g);
    return fd;
}

/* Has the link closed this connection, after it had time to? */
static bool is_closed(struct end *e, int fd)
{
    uint8_t in[256];
    uint16_t from;
    for (int i = 0; i < 10; i++) {
        (void)uw_link_recv(&e->tcp.link, &from, in, sizeof in);
        pass_time();
        ssize_t n = recv(fd, in, sizeof in, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno == ECONNRESET)) {
            return true;
        }
    }
    return false;
}

static void test_tcp_two_that_dial_each_other_keep_one_connection_and_every_message(void **state)
{
    (void)state;
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(1));
    for (uint32_t run = 0; run < 60; run++) {
        uint16_t to[2], from;
        uint32_t sent[2] = {0, 0}, got[2] = {0, 0}, in;
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(open_end(&ends[i], &plain), UW_OK);
        }
        to[0] = resolve(&ends[0], ends[1].address);
        to[1] = resolve(&ends[1], ends[0].address);
        for (int i = 0; i < TRIES && (got[0] < 50 || got[1] < 50); i++) {
            size_t at = uw_rng_below(&rng, 2);
            if (uw_rng_below(&rng, 2) == 0 && sent[at] < 50) {
                sent[at] += uw_link_send(&ends[at].tcp.link, to[at], &sent[at], 4) == UW_OK;
            } else if (uw_link_recv(&ends[at].tcp.link, &from, &in, 4) == 4) {
                assert_int_equal(in, got[at]);
                assert_int_equal(from, to[at]);
                got[at]++;
            }
            if (uw_rng_below(&rng, 4) == 0) {
                pass_time();
            }
        }
        assert_int_equal(got[0], 50);
        assert_int_equal(got[1], 50);
        assert_int_equal(ends[0].tcp.broken_n + ends[1].tcp.broken_n, 0);
        teardown(NULL);
    }
}

static void test_tcp_large_messages_arrive_whole_from_parts_into_views(void **state)
{
    (void)state;
    static uint8_t out[300000];
    struct uw_link_tcp_config c = {.mtu_bytes = sizeof out, .stations_n = 2};
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(2));
    for (size_t i = 0; i < sizeof out; i++) {
        out[i] = (uint8_t)uw_rng_below(&rng, 256);
    }
    assert_int_equal(open_end(&ends[0], &c), UW_OK);
    assert_int_equal(open_end(&ends[1], &c), UW_OK);
    (void)hear(&ends[0], &ends[1], 1);
    uint16_t to = resolve(&ends[0], ends[1].address), from;
    static uint32_t sizes[400], heads[400];
    uint32_t sent = 0, got = 0;
    for (int i = 0; i < 400; i++) {
        uint32_t top = i % 3 == 0 ? 40u : i % 3 == 1 ? 40000u : (uint32_t)sizeof out;
        sizes[i] = i == 7 ? (uint32_t)sizeof out : uw_rng_below(&rng, top);
        heads[i] = uw_rng_below(&rng, sizes[i] < 32 ? sizes[i] + 1 : 32);
    }
    for (int i = 0; i < 100000 && got < 400; i++) {
        while (sent < 400 && uw_link_send_parts(&ends[0].tcp.link, to, out, heads[sent],
                                                out + heads[sent], sizes[sent] - heads[sent],
                                                NULL) == UW_OK) {
            sent++;
        }
        void *view;
        for (int rc; (rc = uw_link_recv_view(&ends[1].tcp.link, &from, NULL, 0, &view)) >= 0;) {
            assert_int_equal(rc, sizes[got]);
            assert_int_equal((uintptr_t)view % 4u, 0);
            assert_memory_equal(view, out, sizes[got]);
            if (uw_rng_below(&rng, 8) == 0) {
                assert_int_equal(uw_link_defer(&ends[1].tcp.link), UW_OK);
                break;
            }
            got++;
        }
        uw_link_resume(&ends[1].tcp.link);
        uint8_t none;
        assert_int_equal(uw_link_recv(&ends[0].tcp.link, &from, &none, 1), UW_ERR_AGAIN);
    }
    assert_int_equal(got, 400);
}

static void test_tcp_full_queue_answers_again_and_loses_nothing(void **state)
{
    (void)state;
    static uint8_t out[4096], in[4096];
    assert_int_equal(open_end(&ends[0], &plain), UW_OK);
    assert_int_equal(open_end(&ends[1], &plain), UW_OK);
    (void)hear(&ends[0], &ends[1], 1);
    uint16_t to = resolve(&ends[0], ends[1].address), from;
    uint32_t sent = 0, got = 0;
    for (int full = 0; full < 5;) {
        memcpy(out, &sent, sizeof sent);
        int rc = uw_link_send(&ends[0].tcp.link, to, out, sizeof out);
        assert_true(rc == UW_OK || rc == UW_ERR_AGAIN);
        sent += rc == UW_OK;
        if (rc == UW_ERR_AGAIN) {
            full++;
            assert_int_equal(uw_link_recv(&ends[0].tcp.link, &from, in, sizeof in), UW_ERR_AGAIN);
            pass_time();
        }
        assert_true(sent < 100000);
    }
    for (; got < sent; got++) {
        assert_int_equal(receive(&ends[1], &from, in, sizeof in), sizeof in);
        assert_memory_equal(in, &got, sizeof got);
        (void)uw_link_recv(&ends[0].tcp.link, &from, out, sizeof out);
    }
    say(&ends[0], to, "x", 1);
    assert_int_equal(receive(&ends[1], &from, in, sizeof in), 1);
    assert_int_equal(ends[0].tcp.broken_n, 0);
}

static void test_tcp_peer_that_ends_is_heard_out_and_reached_again_when_it_is_back(void **state)
{
    (void)state;
    uint8_t byte = 0;
    uint16_t from;
    assert_int_equal(open_end(&ends[0], &plain), UW_OK);
    assert_int_equal(open_end(&ends[1], &plain), UW_OK);
    uint16_t back = hear(&ends[0], &ends[1], 1);
    for (uint8_t i = 10; i < 13; i++) {
        say(&ends[1], back, &i, 1);
    }
    char address[UW_LINK_ADDRESS_BYTES];
    memcpy(address, ends[1].address, sizeof address);
    close_end(&ends[1]);
    for (uint8_t i = 10; i < 13; i++) {
        assert_int_equal(receive(&ends[0], &from, &byte, 1), 1);
        assert_int_equal(byte, i);
    }
    uint16_t to = resolve(&ends[0], address);
    assert_int_equal(from, to);
    for (int i = 0; i < 50; i++) {      /* what goes out before the end is noticed is lost */
        int rc = uw_link_send(&ends[0].tcp.link, to, &byte, 1);
        assert_true(rc == UW_ERR_AGAIN || (rc == UW_OK && i < 3));
        assert_int_equal(uw_link_recv(&ends[0].tcp.link, &from, &byte, 1), UW_ERR_AGAIN);
        pass_time();
    }
    assert_false(uw_link_tcp_is_up(&ends[0].tcp, to));
    assert_int_equal(ends[0].tcp.broken_n, 1);
    struct uw_link_tcp_config again = plain;
    again.bind = address;
    assert_int_equal(open_end(&ends[1], &again), UW_OK);
    assert_string_equal(ends[1].address, address);
    byte = 77;
    now_us += 10000000;     /* whatever the pause before the next dial */
    say(&ends[0], to, &byte, 1);
    assert_int_equal(receive(&ends[1], &from, &byte, 1), 1);
    assert_int_equal(byte, 77);
    /* It is in the other's way no more: forgotten, it is dialed anew. */
    uw_link_forget(&ends[0].tcp.link, to);
    say(&ends[0], to, &byte, 1);
    assert_int_equal(receive(&ends[1], &from, &byte, 1), 1);
}

static void test_tcp_new_dial_of_a_peer_replaces_its_connection_and_a_stale_one_does_not(void **state)
{
    (void)state;
    assert_int_equal(open_end(&ends[0], &plain), UW_OK);
    int first = greet_raw(&ends[0], 4000, 2, 5);
    assert_false(is_closed(&ends[0], first));
    int stale = greet_raw(&ends[0], 4000, 2, 4);
    assert_true(is_closed(&ends[0], stale));
    assert_false(is_closed(&ends[0], first));
    int anew = greet_raw(&ends[0], 4000, 2, 6);
    assert_false(is_closed(&ends[0], anew));
    assert_true(is_closed(&ends[0], first));
    assert_int_equal(ends[0].tcp.broken_n, 1);
    close(first);
    close(stale);
    close(anew);
}

static uint16_t source_port(int fd)
{
    struct sockaddr_in a;
    socklen_t bytes = sizeof a;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &bytes), 0);
    return ntohs(a.sin_port);
}

static void test_tcp_two_peers_behind_one_nat_are_two_stations(void **state)
{
    (void)state;
    char address[UW_LINK_ADDRESS_BYTES];
    uint16_t station[2];
    assert_int_equal(open_end(&ends[0], &plain), UW_OK);
    int first = greet_raw(&ends[0], 4000, 1, 1);
    assert_false(is_closed(&ends[0], first));
    int second = greet_raw(&ends[0], 4000, 2, 1);
    assert_false(is_closed(&ends[0], second));
    assert_false(is_closed(&ends[0], first));
    snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)source_port(second));
    assert_int_equal(uw_link_resolve(&ends[0].tcp.link, "127.0.0.1:4000", &station[0]), UW_OK);
    assert_int_equal(uw_link_resolve(&ends[0].tcp.link, address, &station[1]), UW_OK);
    assert_true(uw_link_tcp_is_up(&ends[0].tcp, station[0]));
    assert_true(uw_link_tcp_is_up(&ends[0].tcp, station[1]));
    /* It is the same one when it dials again, from another port. */
    int again = greet_raw(&ends[0], 4000, 2, 2);
    assert_true(is_closed(&ends[0], second));
    assert_true(uw_link_tcp_is_up(&ends[0].tcp, station[1]));
    assert_int_equal(ends[0].tcp.broken_n, 1);
    close(first);
    close(second);
    close(again);
}

static void test_tcp_nonsense_is_closed_and_delivers_nothing(void **state)
{
    (void)state;
    struct uw_rng rng;
    uint8_t in[64];
    uint16_t from;
    uw_rng_seed(&rng, uw_test_seed(3));
    assert_int_equal(open_end(&ends[0], &plain), UW_OK);
    for (int i = 0; i < 40; i++) {
        uint8_t noise[200];
        for (size_t k = 0; k < sizeof noise; k++) {
            noise[k] = (uint8_t)uw_rng_below(&rng, 256);
        }
        int fd = connect_raw(&ends[0]);
        (void)send(fd, noise, 30 + uw_rng_below(&rng, 170), MSG_NOSIGNAL);
        assert_true(is_closed(&ends[0], fd));
        close(fd);
    }
    /* A message above the mtu, and one that fits after it. */
    int fd = greet_raw(&ends[0], 4000, 1, 1);
    const uint8_t large[12] = {1, 0x10, 0, 0};
    (void)send(fd, large, sizeof large, MSG_NOSIGNAL);
    assert_true(is_closed(&ends[0], fd));
    close(fd);
    fd = greet_raw(&ends[0], 0, 1, 1);      /* nobody listens on port 0 */
    assert_true(is_closed(&ends[0], fd));
    close(fd);
    assert_int_equal(uw_link_recv(&ends[0].tcp.link, &from, in, sizeof in), UW_ERR_AGAIN);
    assert_int_equal(ends[0].tcp.link.stats.received_n, 0);
}

static void test_tcp_stream_cut_after_any_byte_delivers_only_whole_messages(void **state)
{
    (void)state;
    uint8_t whole[UW_TCP_GREETING_BYTES + 2 * 12], in[64];
    uint16_t from;
    assert_int_equal(open_end(&ends[0], &plain), UW_OK);
    for (uint32_t cut = 0; cut <= sizeof whole; cut++) {
        greeting(whole, (uint16_t)(4000 + cut), 1, 1);
        for (size_t i = 0; i < 2; i++) {
            uint8_t *m = whole + UW_TCP_GREETING_BYTES + 12 * i;
            uw_put_u32(m, 7);
            memset(m + 4, (int)(i + 1), 7);
            m[11] = 0;
        }
        int fd = connect_raw(&ends[0]);
        (void)send(fd, whole, cut, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        uint32_t expected = cut < UW_TCP_GREETING_BYTES ? 0 : (cut - UW_TCP_GREETING_BYTES) / 12;
        for (uint32_t i = 0; i < expected; i++) {
            assert_int_equal(receive(&ends[0], &from, in, sizeof in), 7);
            assert_int_equal(in[6], i + 1);
        }
        expect_silence(&ends[0]);
        close(fd);
    }
}

/* What it says last and its end are there together, before the link looks: they are one event. */
static void test_tcp_end_behind_the_last_message_is_noticed(void **state)
{
    (void)state;
    assert_int_equal(open_end(&ends[0], &plain), UW_OK);
    for (uint32_t way = 0; way < 4; way++) {
        bool greeted = way % 2u == 0, shuts = way / 2u == 0;
        uint8_t message[12] = {7, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 0}, in[64];
        uint16_t from, station;
        char address[UW_LINK_ADDRESS_BYTES];
        snprintf(address, sizeof address, "127.0.0.1:%u", 4000u + way);
        assert_int_equal(uw_link_resolve(&ends[0].tcp.link, address, &station), UW_OK);
        int fd = greet_raw(&ends[0], (uint16_t)(4000u + way), 1, 1);
        for (int i = 0; i < TRIES && greeted && !uw_link_tcp_is_up(&ends[0].tcp, station); i++) {
            expect_silence(&ends[0]);
        }
        assert_int_equal(uw_link_tcp_is_up(&ends[0].tcp, station), greeted);
        assert_int_equal(send(fd, message, sizeof message, MSG_NOSIGNAL), sizeof message);
        while (recv(fd, in, sizeof in, MSG_DONTWAIT) > 0) {     /* or closing resets */
        }
        assert_int_equal(shuts ? shutdown(fd, SHUT_WR) : close(fd), 0);
        assert_int_equal(receive(&ends[0], &from, in, sizeof in), 7);
        assert_int_equal(from, station);
        assert_memory_equal(in, message + 4, 7);
        expect_silence(&ends[0]);
        assert_false(uw_link_tcp_is_up(&ends[0].tcp, station));
        assert_int_equal(ends[0].tcp.broken_n, way + 1u);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(uw_link_send(&ends[0].tcp.link, station, in, 7), UW_ERR_AGAIN);
            expect_silence(&ends[0]);
        }
        if (shuts) {
            close(fd);
        }
    }
}

static void test_tcp_strangers_that_say_nothing_are_bounded_and_end(void **state)
{
    (void)state;
    int fd[20];
    uint32_t closed = 0;
    struct uw_link_tcp_config c = {.mtu_bytes = 4096, .stations_n = 4, .strangers_n = 3};
    assert_int_equal(open_end(&ends[0], &c), UW_OK);
    assert_int_equal(open_end(&ends[1], &plain), UW_OK);
    for (size_t i = 0; i < 20; i++) {
        fd[i] = connect_raw(&ends[0]);
        (void)send(fd[i], "uwt", i % 4, MSG_NOSIGNAL);
    }
    for (size_t i = 0; i < 20; i++) {
        closed += is_closed(&ends[0], fd[i]);
    }
    assert_int_equal(closed, 15 - 3);       /* those that say nothing are not accepted */
    (void)hear(&ends[1], &ends[0], 3);
    now_us += 6000000;
    pass_time();
    for (size_t i = 0; i < 20; i++) {
        assert_true(i % 4 == 0 || is_closed(&ends[0], fd[i]));
        close(fd[i]);
    }
    (void)hear(&ends[1], &ends[0], 4);
    assert_int_equal(ends[1].tcp.broken_n, 0);
}

static void test_tcp_unknown_peers_recycle_the_station_silent_longest(void **state)
{
    (void)state;
    struct uw_link_tcp_config c = {.mtu_bytes = 4096, .stations_n = 2};
    assert_int_equal(open_end(&ends[0], &c), UW_OK);
    for (size_t i = 1; i < ENDS; i++) {
        assert_int_equal(open_end(&ends[i], &plain), UW_OK);
    }
    uint16_t one = hear(&ends[1], &ends[0], 1), two = hear(&ends[2], &ends[0], 2);
    assert_int_not_equal(one, two);
    assert_int_equal(hear(&ends[1], &ends[0], 3), one);
    assert_int_equal(hear(&ends[3], &ends[0], 4), two);
    uw_link_hold(&ends[0].tcp.link, one, true);
    uw_link_hold(&ends[0].tcp.link, two, true);
    uint16_t station = resolve(&ends[2], ends[0].address), none;
    uint8_t byte = 5;
    for (int i = 0; i < 30; i++) {
        (void)uw_link_send(&ends[2].tcp.link, station, &byte, 1);
        (void)uw_link_recv(&ends[2].tcp.link, &none, &byte, 1);
        assert_int_equal(uw_link_recv(&ends[0].tcp.link, &none, &byte, 1), UW_ERR_AGAIN);
        pass_time();
    }
    assert_true(ends[0].tcp.link.stats.dropped_n > 0);
    assert_int_equal(uw_link_resolve(&ends[0].tcp.link, "127.0.0.1:9", &none), UW_ERR_FULL);
}

static void test_tcp_above_the_peers_mtu_is_too_big(void **state)
{
    (void)state;
    static uint8_t out[4096];
    struct uw_link_tcp_config c = {.mtu_bytes = 100, .stations_n = 2};
    assert_int_equal(open_end(&ends[0], &plain), UW_OK);
    assert_int_equal(open_end(&ends[1], &c), UW_OK);
    (void)hear(&ends[0], &ends[1], 1);
    uint16_t to = resolve(&ends[0], ends[1].address), from;
    assert_int_equal(uw_link_send(&ends[0].tcp.link, to, out, 101), UW_ERR_TOOBIG);
    say(&ends[0], to, out, 100);
    assert_int_equal(receive(&ends[1], &from, out, 100), 100);
}

static void test_tcp_itself_is_no_peer(void **state)
{
    (void)state;
    uint8_t byte = 1;
    uint16_t from;
    assert_int_equal(open_end(&ends[0], &plain), UW_OK);
    uint16_t to = resolve(&ends[0], ends[0].address);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(uw_link_send(&ends[0].tcp.link, to, &byte, 1), UW_ERR_AGAIN);
        assert_int_equal(uw_link_recv(&ends[0].tcp.link, &from, &byte, 1), UW_ERR_AGAIN);
        pass_time();
    }
}

static void test_tcp_bad_bind_gets_a_sentence(void **state)
{
    (void)state;
    struct uw_error err;
    struct uw_link_tcp_config c = plain;
    assert_int_equal(open_end(&ends[0], &plain), UW_OK);
    c.bind = ends[0].address;
    c.memory_bytes = uw_link_tcp_bytes(&c);
    c.memory = ends[1].memory = malloc(c.memory_bytes);
    assert_int_equal(uw_link_tcp_init(&ends[1].tcp, &c, &err), UW_ERR_IO);
    assert_non_null(strstr(err.text, "taken"));
    c.bind = "4433";
    assert_int_equal(uw_link_tcp_init(&ends[1].tcp, &c, &err), UW_ERR_INVALID);
    c.bind = NULL;
    c.memory_bytes--;
    assert_int_equal(uw_link_tcp_init(&ends[1].tcp, &c, &err), UW_ERR_NOMEM);
    c.mtu_bytes = UW_LINK_TCP_MTU_MAX + 1u;
    assert_true(uw_link_tcp_bytes(&c) == SIZE_MAX);
    assert_int_equal(uw_link_tcp_init(&ends[1].tcp, &c, &err), UW_ERR_INVALID);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_tcp_two_that_dial_each_other_keep_one_connection_and_every_message),
        TEST(test_tcp_large_messages_arrive_whole_from_parts_into_views),
        TEST(test_tcp_full_queue_answers_again_and_loses_nothing),
        TEST(test_tcp_peer_that_ends_is_heard_out_and_reached_again_when_it_is_back),
        TEST(test_tcp_new_dial_of_a_peer_replaces_its_connection_and_a_stale_one_does_not),
        TEST(test_tcp_two_peers_behind_one_nat_are_two_stations),
        TEST(test_tcp_nonsense_is_closed_and_delivers_nothing),
        TEST(test_tcp_stream_cut_after_any_byte_delivers_only_whole_messages),
        TEST(test_tcp_end_behind_the_last_message_is_noticed),
        TEST(test_tcp_strangers_that_say_nothing_are_bounded_and_end),
        TEST(test_tcp_unknown_peers_recycle_the_station_silent_longest),
        TEST(test_tcp_above_the_peers_mtu_is_too_big),
        TEST(test_tcp_itself_is_no_peer),
        TEST(test_tcp_bad_bind_gets_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
