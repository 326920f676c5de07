/* SPDX-License-Identifier: Apache-2.0
 *
 * The link's calls; connections are in link_tcp_conn.c. */
#include "link_tcp_conn.h"

#include "ip_own.h"

#include "base/bytes.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STATIONS_DEFAULT 32u
#define STRANGERS_DEFAULT 8u
#define SILENCE_DEFAULT_US 10000000u
#define SPARE_BYTES 4096u               /* behind a whole message: small ones that follow it */
#define LINE_BYTES 64u

static int tcp_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    struct uw_link_tcp *l = (struct uw_link_tcp *)link;
    struct uw_ip_address a;
    int rc = uw_ip_resolve(address, !l->ipv6 ? UW_IP_V4 : !l->ipv4 ? UW_IP_V6 : UW_IP_ANY, &a);
    rc = rc < 0 ? rc : uw_tcp_enter(l, &a, station);
    if (rc == UW_OK) {
        (void)uw_stations_hold(&l->addresses, *station, true);
    }
    return rc;
}

static int tcp_describe(struct uw_link *link, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    return uw_stations_describe(&((struct uw_link_tcp *)link)->addresses, station, text);
}

static bool tcp_hold(struct uw_link *link, uint16_t station, bool hold)
{
    return uw_stations_hold(&((struct uw_link_tcp *)link)->addresses, station, hold);
}

static int tcp_send_parts(struct uw_link *link, uint16_t to, const void *head, uint32_t head_bytes,
                          const void *body, uint32_t body_bytes)
{
    static const uint8_t zeros[4];
    struct uw_link_tcp *l = (struct uw_link_tcp *)link;
    if (to == UW_LINK_STATION_BROADCAST) {
        return UW_ERR_UNSUPPORTED;
    }
    if (uw_stations_address(&l->addresses, to, true) == NULL) {
        return UW_ERR_NOTFOUND;
    }
    const struct uw_link_tcp_station *s = &l->stations[to];
    if (s->conn == UW_TCP_NONE) {
        uw_tcp_dial(l, to);
        return UW_ERR_AGAIN;
    }
    const struct uw_link_tcp_conn *c = &l->conns[s->conn];
    if (c->state != UW_TCP_UP) {
        return UW_ERR_AGAIN;
    }
    uint32_t bytes = head_bytes + body_bytes, pad = (0u - bytes) & 3u;
    if (bytes > c->peer_mtu) {
        return UW_ERR_TOOBIG;
    }
    uint8_t prefix[UW_TCP_PREFIX_BYTES];
    uw_put_u32(prefix, bytes);
    struct iovec iov[4] = {{prefix, sizeof prefix},
                           {(void *)(uintptr_t)head, head_bytes},
                           {(void *)(uintptr_t)body, body_bytes},
                           {(void *)(uintptr_t)zeros, pad}};
    int rc = uw_tcp_send(l, s->conn, iov, 4, UW_TCP_PREFIX_BYTES + bytes + pad);
    if (rc == UW_OK) {
        link->stats.sent_n++;
        link->stats.sent_bytes += bytes;
    }
    return rc;
}

static int tcp_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    return tcp_send_parts(link, to, buf, buf_bytes, NULL, 0);
}

static int tcp_recv_view(struct uw_link *link, uint16_t *from, void **view)
{
    struct uw_link_tcp *l = (struct uw_link_tcp *)link;
    uint16_t conn;
    uint8_t *at;
    l->viewed = UW_TCP_NONE;
    int rc = uw_tcp_next(l, &conn, &at);
    if (rc >= 0) {
        l->viewed = conn;
        *from = l->conns[conn].station;
        *view = at;
        (void)uw_stations_address(&l->addresses, *from, true);
        link->stats.received_n++;
        link->stats.received_bytes += (uint64_t)rc;
    }
    return rc;
}

static int tcp_recv(struct uw_link *link, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct uw_link_tcp *l = (struct uw_link_tcp *)link;
    void *view;
    int rc = tcp_recv_view(link, from, &view);
    l->viewed = UW_TCP_NONE;
    if (rc > 0 && (uint32_t)rc > cap_bytes) {
        link->stats.received_n--;
        link->stats.received_bytes -= (uint64_t)rc;
        link->stats.dropped_n++;
        return UW_ERR_TOOBIG;
    }
    if (rc > 0) {
        memcpy(buf, view, (size_t)rc);
    }
    return rc;
}

static int tcp_defer(struct uw_link *link)
{
    struct uw_link_tcp *l = (struct uw_link_tcp *)link;
    if (l->viewed == UW_TCP_NONE) {
        return UW_ERR_INVALID;
    }
    struct uw_link_tcp_conn *c = &l->conns[l->viewed];
    c->rx_at -= l->viewed_bytes;
    c->deferred = true;
    link->stats.received_n--;
    link->stats.received_bytes -= uw_get_u32(c->rx + c->rx_at);
    l->viewed = UW_TCP_NONE;
    return UW_OK;
}

static void tcp_resume(struct uw_link *link)
{
    struct uw_link_tcp *l = (struct uw_link_tcp *)link;
    for (uint16_t i = 0; i < l->conns_n; i++) {
        if (l->conns[i].deferred) {
            l->conns[i].deferred = false;
            uw_tcp_make_ready(l, i);
        }
    }
}

static uint64_t tcp_step(struct uw_link *link, uint64_t now_us)
{
    struct uw_link_tcp *l = (struct uw_link_tcp *)link;
    l->now_us = now_us > l->now_us ? now_us : l->now_us;
    return uw_tcp_expire(l);
}

static void tcp_forget(struct uw_link *link, uint16_t station)
{
    struct uw_link_tcp *l = (struct uw_link_tcp *)link;
    if (station < l->addresses.slots_n && l->stations[station].conn != UW_TCP_NONE) {
        uw_tcp_close(l, l->stations[station].conn, true);
    }
}

static void tcp_deinit(struct uw_link *link)
{
    struct uw_link_tcp *l = (struct uw_link_tcp *)link;
    for (uint16_t i = 0; i < l->conns_n; i++) {
        uw_tcp_close(l, i, false);
    }
    close(l->listener);
    close(link->fd);
    l->listener = link->fd = -1;
    link->ops = NULL;
}

static const struct uw_link_ops tcp_ops = {
    .name = "tcp",
    .resolve = tcp_resolve,
    .describe = tcp_describe,
    .hold = tcp_hold,
    .send = tcp_send,
    .recv = tcp_recv,
    .step = tcp_step,
    .deinit = tcp_deinit,
    .forget = tcp_forget,
    .send_parts = tcp_send_parts,
    .recv_view = tcp_recv_view,
    .defer = tcp_defer,
    .resume = tcp_resume,
};

/* Sizes. */

struct sizes {
    uint32_t mtu, rx, tx, session;
    uint16_t stations, conns;
    size_t addresses, table, conn_table, ready, rxs, txs, sessions, total;
};

static size_t whole_lines(size_t bytes)
{
    return (bytes + LINE_BYTES - 1u) / LINE_BYTES * LINE_BYTES;
}

static bool sizes_of(const struct uw_link_tcp_config *c, struct sizes *s)
{
    uint32_t stations = c->stations_n != 0 ? c->stations_n : STATIONS_DEFAULT;
    uint32_t conns = stations + (c->strangers_n != 0 ? c->strangers_n : STRANGERS_DEFAULT);
    s->mtu = c->mtu_bytes != 0 ? c->mtu_bytes : UW_LINK_TCP_MTU_DEFAULT;
    if (conns >= UW_LINK_STATION_BROADCAST || s->mtu > UW_LINK_TCP_MTU_MAX) {
        return false;
    }
    s->stations = (uint16_t)stations;
    s->conns = (uint16_t)conns;
    s->rx = (uint32_t)whole_lines(UW_TCP_PREFIX_BYTES + s->mtu + 3u + SPARE_BYTES);
    s->tx = s->rx;
    s->session = 0;
    if (c->guard != NULL) {
        const struct uw_stream_guard_ops *g = c->guard->ops;
        s->tx += (uint32_t)whole_lines(g->handshake_bytes + (s->mtu / g->record_bytes + 2u) *
                                                                g->overhead_bytes);
        s->session = (uint32_t)whole_lines(g->session_bytes());
    }
    s->addresses = whole_lines(uw_stations_bytes(s->stations, 0));
    s->table = whole_lines(stations * sizeof(struct uw_link_tcp_station));
    s->conn_table = whole_lines(conns * sizeof(struct uw_link_tcp_conn));
    s->ready = whole_lines(conns * sizeof(uint16_t));
    s->rxs = (size_t)stations * s->rx;
    s->txs = (size_t)conns * s->tx;
    s->sessions = (size_t)conns * s->session;
    s->total = s->addresses + s->table + s->conn_table + s->ready + s->rxs + s->txs + s->sessions +
               LINE_BYTES;
    return s->rxs / s->rx == stations && s->txs / s->tx == conns;
}

size_t uw_link_tcp_bytes(const struct uw_link_tcp_config *config)
{
    struct sizes s;
    return config != NULL && sizes_of(config, &s) ? s.total : SIZE_MAX;
}

static void lay_out(struct uw_link_tcp *l, const struct sizes *s, void *memory)
{
    uint8_t *at = memory;
    at += (0u - (uintptr_t)at) % LINE_BYTES;
    uw_stations_init(&l->addresses, at, s->stations);
    at += s->addresses;
    memset(at, 0, s->table + s->conn_table + s->ready);
    l->stations = (struct uw_link_tcp_station *)(void *)at;
    l->conns = (struct uw_link_tcp_conn *)(void *)(at + s->table);
    l->ready = (uint16_t *)(void *)(at + s->table + s->conn_table);
    l->rx = at + s->table + s->conn_table + s->ready;
    l->tx = l->rx + s->rxs;
    l->sessions = l->tx + s->txs;
    l->conns_n = s->conns;
    l->rx_bytes = s->rx;
    l->tx_bytes = s->tx;
    l->session_bytes = s->session;
    l->link.mtu_bytes = s->mtu;
    for (uint16_t i = 0; i < s->stations; i++) {
        l->stations[i].conn = UW_TCP_NONE;
    }
    for (uint16_t i = 0; i < l->conns_n; i++) {
        l->conns[i].fd = -1;
        l->conns[i].station = UW_TCP_NONE;
    }
}

/* A unique number of this end, not secret. */
static uint64_t draw_id(const struct uw_link_tcp *l)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t x = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    x ^= (uint64_t)getpid() << 40 ^ (uint64_t)(uintptr_t)l << 16 ^ l->port;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

int uw_link_tcp_init(struct uw_link_tcp *l, const struct uw_link_tcp_config *config,
                     struct uw_error *err)
{
    struct sizes sizes;
    struct uw_ip_address a;
    memset(l, 0, sizeof *l);
    l->link.fd = l->listener = -1;
    if (config == NULL || !sizes_of(config, &sizes)) {
        return uw_error_set(err, UW_ERR_INVALID, "a TCP link carries 1 to %u bytes a message",
                            UW_LINK_TCP_MTU_MAX);
    }
    if (config->memory == NULL || config->memory_bytes < sizes.total) {
        return uw_error_set(err, UW_ERR_NOMEM, "the TCP link needs %lu bytes of memory",
                            (unsigned long)sizes.total);
    }
    l->listener = uw_ip_open(config->bind, SOCK_STREAM, &l->ipv4, &l->ipv6, err);
    if (l->listener < 0) {
        return l->listener;
    }
    l->link.fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->link.fd < 0 || !uw_ip_address_of(l->listener, false, &a)) {
        close(l->link.fd);
        close(l->listener);
        return uw_error_set(err, UW_ERR_IO, "the system refused epoll");
    }
    lay_out(l, &sizes, config->memory);
    l->port = a.port;
    l->id = draw_id(l);
    l->viewed = l->tried = UW_TCP_NONE;
    l->narrow = config->narrow;
    l->user = config->user;
    l->silence_us = config->silence_us != 0 ? config->silence_us : SILENCE_DEFAULT_US;
    l->socket_buffer_bytes = config->socket_buffer_bytes;
    l->guard = config->guard;
    l->link.reliable = true;
    l->link.secure = config->guard != NULL;
    l->link.ops = &tcp_ops;
    uw_tcp_defer_accept(l);
    uw_tcp_set_accepts(l, true);
    return UW_OK;
}

int uw_link_tcp_local(const struct uw_link_tcp *l, char text[UW_LINK_ADDRESS_BYTES])
{
    struct uw_ip_address a;
    if (l->link.ops == NULL || !uw_ip_address_of(l->listener, false, &a)) {
        return UW_ERR_CLOSED;
    }
    return uw_ip_address_print(&a, text);
}

bool uw_link_tcp_is_up(const struct uw_link_tcp *l, uint16_t station)
{
    bool there = l->link.ops != NULL && station < l->addresses.slots_n;
    uint16_t conn = there ? l->stations[station].conn : UW_TCP_NONE;
    return conn != UW_TCP_NONE && l->conns[conn].state == UW_TCP_UP;
}

uint32_t uw_link_tcp_own(const struct uw_link_tcp *l, uint8_t *out, uint32_t cap_bytes)
{
    struct uw_ip_address a;
    if (l->link.ops == NULL || !uw_ip_address_of(l->listener, false, &a)) {
        return 0;
    }
    return uw_ip_own(&a, l->ipv4, l->ipv6, out, cap_bytes);
}
