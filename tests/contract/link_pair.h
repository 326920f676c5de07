/* SPDX-License-Identifier: Apache-2.0
 *
 * Two ends of a link that can reach each other, for every link there is. */
#ifndef UWASA_TEST_LINK_PAIR_H
#define UWASA_TEST_LINK_PAIR_H

#include "pty_pair.h"
#include "serial_pipe.h"
#include "test_support.h"

#include "uwasa/link_emulated.h"
#include "uwasa/link_frame.h"
#include "uwasa/link_loopback.h"
#include "uwasa/link_serial.h"
#include "uwasa/link_tcp.h"
#include "uwasa/link_udp.h"
#include "uwasa/link_zsock.h"
#include "uwasa/radio_bus.h"
#include "uwasa/radio_link.h"
#include "uwasa/radio_udp.h"
#include "uwasa/secure.h"
#include "uwasa/secure_stream.h"

#include <poll.h>
#include <time.h>

#define MTU 1232u

struct pair {
    bool real_time;
    bool waits;                     /* a second message may have to wait for the first */
    bool together;                  /* udp: messages wait for each other */
    bool all_exist;                 /* stations: all numbers that can be written */
    uint64_t now_us;
    struct pty_pair *cable;         /* NULL: none */
    struct uw_link *link[2];        /* the ends under test */
    struct uw_link *lower[2];       /* what they wrap, NULL: nothing */
    uint16_t to[2];                 /* to[0]: station of end 1 at end 0 */
    struct uw_loopback_hub hub;
    struct uw_link_loopback loopback[2];
    struct uw_link_emulated emulated[2];
    struct uw_link_udp udp[2];
    struct uw_link_zsock zsock[2];
    struct uw_link_tcp tcp[2];
    struct serial_pipe pipe[2];
    struct uw_link_serial serial[2];
    struct uw_radio_link radio[2];
    struct uw_radio_bus bus[2];
    struct uw_radio_udp multicast[2];
    struct uw_link_frame frame[2];
    struct uw_secure_dtls dtls[2];
    struct uw_secure_stream tls[2];
    void *blocks[8];
    size_t blocks_n;
};

struct variant {
    const char *name;
    const char *(*open)(struct pair *p);    /* NULL, or why it cannot run here */
};

static inline void *block(struct pair *p, size_t bytes)
{
    assert_true(bytes != SIZE_MAX);
    assert_true(p->blocks_n < sizeof p->blocks / sizeof p->blocks[0]);
    return p->blocks[p->blocks_n++] = uw_test_block(bytes);
}

static inline const char *open_loopback(struct pair *p)
{
    struct uw_loopback_config config = {.endpoints_n = 2, .mtu_bytes = MTU, .queue_n = 16};
    config.memory_bytes = uw_loopback_hub_bytes(&config);
    config.memory = block(p, config.memory_bytes);
    assert_int_equal(uw_loopback_hub_init(&p->hub, &config), UW_OK);
    for (uint16_t i = 0; i < 2; i++) {
        assert_int_equal(uw_link_loopback_init(&p->loopback[i], &p->hub, i), UW_OK);
        p->link[i] = &p->loopback[i].link;
    }
    assert_int_equal(uw_link_resolve(p->link[0], "1", &p->to[0]), UW_OK);
    return NULL;
}

static inline const char *open_emulated(struct pair *p)
{
    open_loopback(p);
    for (size_t i = 0; i < 2; i++) {
        struct uw_link_emulated_config config = {
            .lower = p->link[i], .queue_n = 8, .send = {.delay_us = i == 0 ? 0 : 500}};
        config.memory_bytes = uw_link_emulated_bytes(&config);
        config.memory = block(p, config.memory_bytes);
        p->lower[i] = p->link[i];
        assert_int_equal(uw_link_emulated_init(&p->emulated[i], &config), UW_OK);
        p->link[i] = &p->emulated[i].link;
    }
    return NULL;
}

static inline void open_serial_end(struct pair *p, size_t i, struct uw_serial *serial)
{
    struct uw_link_serial_config config = {.serial = serial, .mtu_bytes = MTU};
    config.memory_bytes = uw_link_serial_bytes(&config);
    config.memory = block(p, config.memory_bytes);
    assert_int_equal(uw_link_serial_init(&p->serial[i], &config), UW_OK);
    p->link[i] = &p->serial[i].link;
}

static inline const char *open_serial(struct pair *p)
{
    serial_pipe_join(&p->pipe[0], &p->pipe[1]);
    p->pipe[0].take_bytes = 5;
    for (size_t i = 0; i < 2; i++) {
        open_serial_end(p, i, &p->pipe[i].base);
    }
    assert_int_equal(uw_link_resolve(p->link[0], "peer", &p->to[0]), UW_OK);
    return NULL;
}

static inline const char *open_udp(struct pair *p, const char *address)
{
    p->real_time = true;
    for (size_t i = 0; i < 2; i++) {
        struct uw_error err;
        struct uw_link_udp_config config = {.bind = address, .mtu_bytes = MTU, .stations_n = 4,
                                            .together = p->together};
        config.memory_bytes = uw_link_udp_bytes(&config);
        config.memory = block(p, config.memory_bytes);
        if (uw_link_udp_init(&p->udp[i], &config, &err) != UW_OK) {
            assert_true(strchr(address, '[') != NULL); /* only IPv6 may be missing */
            return "this machine has no ::1";
        }
        p->link[i] = &p->udp[i].link;
    }
    char text[UW_LINK_ADDRESS_BYTES];
    assert_int_equal(uw_link_udp_local(&p->udp[1], text), UW_OK);
    assert_int_equal(uw_link_resolve(p->link[0], text, &p->to[0]), UW_OK);
    return NULL;
}

static inline const char *open_udp_ipv4(struct pair *p)
{
    return open_udp(p, "127.0.0.1:0");
}

static inline const char *open_udp_ipv6(struct pair *p)
{
    return open_udp(p, "[::1]:0");
}

static inline struct uw_stream_guard *guard(struct pair *p, size_t i)
{
    struct uw_secure_stream_config config = {.key = {1, 2, 3}, .identity = "contract"};
    config.memory_bytes = uw_secure_stream_bytes(&config);
    config.memory = block(p, config.memory_bytes);
    assert_int_equal(uw_secure_stream_init(&p->tls[i], &config), UW_OK);
    return &p->tls[i].guard;
}

static inline const char *open_tcp(struct pair *p, const char *address, bool guarded)
{
    p->real_time = true;
    for (size_t i = 0; i < 2; i++) {
        struct uw_error err;
        struct uw_link_tcp_config config = {.bind = address, .mtu_bytes = MTU, .stations_n = 4,
                                            .guard = guarded ? guard(p, i) : NULL};
        config.memory_bytes = uw_link_tcp_bytes(&config);
        config.memory = block(p, config.memory_bytes);
        if (uw_link_tcp_init(&p->tcp[i], &config, &err) != UW_OK) {
            assert_true(strchr(address, '[') != NULL); /* only IPv6 may be missing */
            return "this machine has no ::1";
        }
        p->link[i] = &p->tcp[i].link;
    }
    char text[UW_LINK_ADDRESS_BYTES];
    assert_int_equal(uw_link_tcp_local(&p->tcp[1], text), UW_OK);
    assert_int_equal(uw_link_resolve(p->link[0], text, &p->to[0]), UW_OK);
    return NULL;
}

static inline const char *open_tcp_ipv4(struct pair *p)
{
    return open_tcp(p, "127.0.0.1:0", false);
}

static inline const char *open_tls(struct pair *p)
{
    return open_tcp(p, "127.0.0.1:0", true);
}

static inline const char *open_tcp_ipv6(struct pair *p)
{
    return open_tcp(p, "[::1]:0", false);
}

static inline const char *secure(struct pair *p, const char *skip)
{
    for (size_t i = 0; i < 2 && skip == NULL; i++) {
        struct uw_secure_dtls_config config = {
            .lower = p->link[i], .key = {1, 2, 3}, .identity = "contract", .sessions_n = 2};
        config.memory_bytes = uw_secure_dtls_bytes(&config);
        config.memory = block(p, config.memory_bytes);
        p->lower[i] = p->link[i];
        assert_int_equal(uw_secure_dtls_init(&p->dtls[i], &config), UW_OK);
        p->link[i] = &p->dtls[i].link;
    }
    return skip;
}

static inline const char *open_dtls_loopback(struct pair *p)
{
    return secure(p, open_loopback(p));
}

static inline const char *open_dtls_serial(struct pair *p)
{
    return secure(p, open_serial(p));
}

static inline const char *open_dtls_udp(struct pair *p)
{
    return secure(p, open_udp_ipv4(p));
}

/* Let a little time pass at both ends; never more than 2 ms of real time. */
static inline void pass_time(struct pair *p)
{
    if (p->real_time) {
        struct pollfd fds[4] = {{.fd = p->link[0]->fd, .events = POLLIN},
                                {.fd = p->link[1]->fd, .events = POLLIN},
                                {.fd = p->cable != NULL ? p->cable->master[0] : -1,
                                 .events = POLLIN},
                                {.fd = p->cable != NULL ? p->cable->master[1] : -1,
                                 .events = POLLIN}};
        struct timespec t;
        poll(fds, 4, 2);
        if (p->cable != NULL) {
            pty_pair_pump(p->cable);
        }
        clock_gettime(CLOCK_MONOTONIC, &t);
        p->now_us = (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
    } else {
        p->now_us += 250;
    }
    uw_link_step(p->link[0], p->now_us);
    uw_link_step(p->link[1], p->now_us);
}

/* test_link.c: every promise of uwasa/link.h, over each variant. Returns how many failed. */
int uw_test_link_suite(const struct variant *variants, size_t variants_n);

#endif
