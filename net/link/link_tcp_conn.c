/* SPDX-License-Identifier: Apache-2.0 */
#include "link_tcp_conn.h"

#include "base/backoff.h"
#include "base/bytes.h"
#include "base/token_bucket.h"

#include "uwasa/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_US 3000000u
#define GREETING_US 5000000u
#define RETRY_US 100000u
#define RETRY_DOUBLINGS 5u              /* up to 3.2 s */
#define ACCEPT_PAUSE_US 100000u         /* the system has no descriptors left */
#define EVENTS 32
#define POLLS_MAX 64                    /* in one call */
#define LISTENER UINT32_MAX

static const uint8_t magic[4] = {'u', 'w', 't', '1'};

static void watch(const struct uw_link_tcp *l, int fd, uint32_t events, uint32_t what)
{
    struct epoll_event e = {.events = events, .data.u32 = what};
    (void)epoll_ctl(l->link.fd, EPOLL_CTL_ADD, fd, &e);
}

void uw_tcp_make_ready(struct uw_link_tcp *l, uint16_t conn)
{
    if (!l->conns[conn].queued) {
        l->conns[conn].queued = true;
        l->ready[(l->ready_at + l->ready_n++) % l->conns_n] = conn;
    }
}

void uw_tcp_set_accepts(struct uw_link_tcp *l, bool accepts)
{
    if (accepts && !l->accepts) {
        watch(l, l->listener, EPOLLIN, LISTENER);
    } else if (!accepts && l->accepts) {
        (void)epoll_ctl(l->link.fd, EPOLL_CTL_DEL, l->listener, NULL);
    }
    l->accepts = accepts;
}

void uw_tcp_defer_accept(const struct uw_link_tcp *l)
{
#if defined(TCP_DEFER_ACCEPT)
    int seconds = GREETING_US / 1000000u;
    (void)setsockopt(l->listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
#else
    (void)l;
#endif
}

/* How connections begin and end. */

static void release(struct uw_link_tcp *l, uint16_t conn)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    if (c->guarded) {
        l->guard->ops->close(l->guard, c->session);
    }
    if (c->fd >= 0) {
        close(c->fd);
    }
    if (c->station != UW_TCP_NONE && l->stations[c->station].conn == conn) {
        l->stations[c->station].conn = UW_TCP_NONE;
    }
    l->viewed = l->viewed == conn ? UW_TCP_NONE : l->viewed;
    *c = (struct uw_link_tcp_conn){.fd = -1, .station = UW_TCP_NONE, .queued = c->queued};
}

void uw_tcp_close(struct uw_link_tcp *l, uint16_t conn, bool drain)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    if (!drain || c->state != UW_TCP_UP) {
        release(l, conn);
        return;
    }
    l->link.stats.dropped_n += c->tx_at != c->tx_end;
    close(c->fd);
    c->fd = -1;
    c->readable = false;
    c->tx_at = c->tx_end = 0;
    c->state = UW_TCP_ENDED;
    uw_tcp_make_ready(l, conn);
}

/* The peer or the path has ended a connection: dial again after the back-off. */
static void break_off(struct uw_link_tcp *l, uint16_t conn)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    if (c->state == UW_TCP_UP) {
        l->broken_n++;
    } else if (c->dialed && c->station != UW_TCP_NONE) {
        struct uw_link_tcp_station *s = &l->stations[c->station];
        uw_tcp_tried(l, c, false);
        s->retry_us = l->now_us + uw_backoff_us(RETRY_US, &s->fails, RETRY_DOUBLINGS);
    }
    uw_tcp_close(l, conn, true);
}

int uw_tcp_enter(struct uw_link_tcp *l, const struct uw_ip_address *a, uint16_t *number)
{
    bool is_new;
    int rc = uw_stations_enter(&l->addresses, a, number, &is_new);
    if (rc == UW_OK && is_new) {
        struct uw_link_tcp_station *s = &l->stations[*number];
        if (s->conn != UW_TCP_NONE) {
            uw_tcp_close(l, s->conn, false);
        }
        *s = (struct uw_link_tcp_station){.conn = UW_TCP_NONE};
    }
    return rc;
}

static void set_options(const struct uw_link_tcp *l, int fd)
{
    int on = 1, buffer = (int)l->socket_buffer_bytes, count = 3;
    unsigned int silence_ms = l->silence_us / 1000u;
    int idle_s = (int)(l->silence_us / 2000000u) + 1, again_s = idle_s / 3 + 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    uw_tcp_limit_segment(l, fd);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &again_s, sizeof again_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    if (buffer != 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    }
}

/* Allocate a connection for a socket. There is always a free one: a station has one at most, and
 * those without a greeting are limited. */
static uint16_t open_conn(struct uw_link_tcp *l, int fd, enum uw_tcp_state state)
{
    uint16_t i = 0;
    while (l->conns[i].state != UW_TCP_FREE) {
        i++;
    }
    l->conns[i] = (struct uw_link_tcp_conn){
        .state = state, .fd = fd, .station = UW_TCP_NONE, .since_us = l->now_us, .link = l,
        .queued = l->conns[i].queued, .tx = l->tx + (size_t)i * l->tx_bytes,
        .session = l->sessions + (size_t)i * l->session_bytes};
    watch(l, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, i);
    return i;
}

/* Bind the socket to the address that this end listens on, if it is a single one. */
static void bind_source(const struct uw_link_tcp *l, int fd)
{
    struct sockaddr_storage s;
    struct uw_ip_address a;
    if (uw_ip_address_of(l->listener, false, &a) && !uw_ip_address_is_any(&a)) {
        a.port = 0;
        socklen_t bytes = uw_ip_address_to(&a, l->ipv6, &s);
        (void)bind(fd, (struct sockaddr *)&s, bytes);
    }
}

void uw_tcp_dial(struct uw_link_tcp *l, uint16_t station)
{
    struct uw_link_tcp_station *s = &l->stations[station];
    struct sockaddr_storage to;
    if (l->now_us < s->retry_us) {
        return;
    }
    int fd = uw_ip_socket(l->ipv6, SOCK_STREAM);
    if (fd < 0) {
        s->retry_us = l->now_us + RETRY_US;
        return;
    }
    set_options(l, fd);
    bind_source(l, fd);
    socklen_t bytes = uw_ip_address_to(uw_stations_address(&l->addresses, station, false), l->ipv6,
                                       &to);
    int rc = connect(fd, (struct sockaddr *)&to, bytes);
    bool fails = rc < 0 && errno != EINPROGRESS && errno != EINTR;
    uint16_t conn = open_conn(l, fd, UW_TCP_DIALING);
    struct uw_link_tcp_conn *c = &l->conns[conn];
    c->dialed = true;
    c->station = station;
    s->conn = conn;
    if (fails) {
        break_off(l, conn);
    }
}

int uw_tcp_send(struct uw_link_tcp *l, uint16_t conn, struct iovec *iov, int iov_n, uint32_t bytes)
{
    int rc = uw_tcp_write(l, &l->conns[conn], iov, iov_n, bytes);
    if (rc == UW_ERR_CLOSED) {
        break_off(l, conn);
    }
    return rc == UW_OK ? UW_OK : UW_ERR_AGAIN;
}

/* Greetings. */

/* It fits the buffer of a new socket; if not, the connection is unusable. */
static void send_greeting(struct uw_link_tcp *l, uint16_t conn)
{
    uint8_t g[UW_TCP_GREETING_BYTES] = {0};
    memcpy(g, magic, sizeof magic);
    uw_put_u16(g + 4, l->port);
    uw_put_u64(g + 8, l->id);
    uw_put_u32(g + 16, ++l->greetings_n);
    uw_put_u32(g + 20, l->link.mtu_bytes);
    struct iovec iov = {g, sizeof g};
    if (uw_tcp_write(l, &l->conns[conn], &iov, 1, sizeof g) < 0) {
        break_off(l, conn);
    }
}

static void come_up(struct uw_link_tcp *l, uint16_t conn)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    struct uw_link_tcp_station *s = &l->stations[c->station];
    c->state = UW_TCP_UP;
    c->rx = l->rx + (size_t)c->station * l->rx_bytes;
    s->conn = conn;
    s->fails = 0;
    s->retry_us = 0;
    uw_tcp_make_ready(l, conn);
}

/* Decide whether an accepted connection becomes its station's; closes the one it replaces. */
static bool settle(struct uw_link_tcp *l, const struct uw_link_tcp_conn *c, uint16_t station)
{
    uint16_t at = l->stations[station].conn;
    if (at == UW_TCP_NONE) {
        return true;
    }
    const struct uw_link_tcp_conn *now = &l->conns[at];
    bool mine = now->state != UW_TCP_UP && now->state != UW_TCP_ENDED;
    if (mine && l->id > c->peer_id) {
        return false;
    }
    if (!mine && now->peer_id == c->peer_id && c->peer_serial < now->peer_serial) {
        return false;
    }
    l->broken_n += now->state == UW_TCP_UP;
    uw_tcp_close(l, at, false);
    return true;
}

/* Find the station of the other end of an accepted connection, which listens at `a`. Of two behind
 * one NAT that listen on the same port, the second is at the port that it dialed from.
 * Returns as uw_tcp_enter. */
static int enter_peer(struct uw_link_tcp *l, const struct uw_link_tcp_conn *c,
                      struct uw_ip_address *a, uint16_t *station)
{
    int rc = uw_tcp_enter(l, a, station);
    uint16_t at = rc == UW_OK ? l->stations[*station].conn : UW_TCP_NONE;
    if (at == UW_TCP_NONE || l->conns[at].state != UW_TCP_UP ||
        l->conns[at].peer_id == c->peer_id) {
        return rc;
    }
    for (uint16_t i = 0; i < l->conns_n; i++) {
        if (l->conns[i].state == UW_TCP_UP && l->conns[i].peer_id == c->peer_id) {
            *station = l->conns[i].station;
            return UW_OK;
        }
    }
    a->port = c->from.port;
    return uw_tcp_enter(l, a, station);
}

static void accept_peer(struct uw_link_tcp *l, uint16_t conn, uint16_t port)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    struct uw_ip_address a;
    uint16_t station;
    if (c->dialed) {
        come_up(l, conn);
        return;
    }
    if (!uw_ip_address_of(c->fd, true, &a)) {
        release(l, conn);
        return;
    }
    a.port = port;
    if (enter_peer(l, c, &a, &station) < 0 || !settle(l, c, station)) {
        l->link.stats.dropped_n++;
        release(l, conn);
        return;
    }
    c->station = station;
    come_up(l, conn);
    send_greeting(l, conn);
}

/* After the handshake, if any: the dialing end sends its greeting. */
static void begin_greeting(struct uw_link_tcp *l, uint16_t conn)
{
    l->conns[conn].state = UW_TCP_GREETING;
    if (l->conns[conn].dialed) {
        send_greeting(l, conn);
    }
    uw_tcp_make_ready(l, conn);
}

static void handshake(struct uw_link_tcp *l, uint16_t conn)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    int rc = l->guard->ops->handshake(l->guard, c->session);
    int sent = uw_tcp_flush(c);     /* the last message may be an alert */
    if (sent == UW_ERR_CLOSED || (rc < 0 && rc != UW_ERR_AGAIN)) {
        break_off(l, conn);
    } else if (rc == UW_OK) {
        begin_greeting(l, conn);
    }
}

/* Unknown peers. */

static bool is_stranger(const struct uw_link_tcp_conn *c)
{
    return !c->dialed && (c->state == UW_TCP_SECURING || c->state == UW_TCP_GREETING);
}

/* Strangers with the address of this one, which counts. */
static uint32_t crowd_of(const struct uw_link_tcp *l, const struct uw_link_tcp_conn *c)
{
    uint32_t n = 0;
    for (uint16_t i = 0; i < l->conns_n; i++) {
        n += is_stranger(&l->conns[i]) &&
             memcmp(l->conns[i].from.ip, c->from.ip, sizeof c->from.ip) == 0;
    }
    return n;
}

/* One of two that are equal otherwise: the i-th of them replaces the others with 1 in i. */
static bool draw(struct uw_link_tcp *l, uint32_t equal_n)
{
    return uw_rng_mix(l->id, ++l->draws_n) % equal_n == 0;
}

/* The handshake that is to begin next: of the address with fewest connections, at random. */
static uint16_t next_to_begin(struct uw_link_tcp *l)
{
    uint16_t best = UW_TCP_NONE;
    uint32_t best_crowd = 0, equal_n = 0;
    for (uint16_t i = 0; i < l->conns_n; i++) {
        const struct uw_link_tcp_conn *c = &l->conns[i];
        if (!is_stranger(c) || !c->waits) {
            continue;
        }
        uint32_t crowd = crowd_of(l, c);
        bool better = best == UW_TCP_NONE || crowd < best_crowd;
        equal_n = better ? 1u : equal_n + (crowd == best_crowd);
        if (better || (crowd == best_crowd && draw(l, equal_n))) {
            best = i;
            best_crowd = crowd;
        }
    }
    return best;
}

/* Limit the handshakes that unknown peers begin, because they cost time. Returns the time of the
 * next call. */
static uint64_t begin_waiting(struct uw_link_tcp *l)
{
    for (;;) {
        uint16_t next = next_to_begin(l);
        if (next == UW_TCP_NONE) {
            return UINT64_MAX;
        }
        if (!uw_bucket_take(&l->begun_us, l->now_us, UW_TCP_BEGIN_US,
                            UW_TCP_BEGIN_MAX * UW_TCP_BEGIN_US, 0)) {
            return l->begun_us - (UW_TCP_BEGIN_MAX - 1u) * UW_TCP_BEGIN_US;
        }
        l->conns[next].waits = false;
        l->conns[next].begun = true;
        handshake(l, next);
    }
}

/* Continue a handshake, or let it wait for its turn. */
static void secure(struct uw_link_tcp *l, uint16_t conn)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    if (c->dialed || c->begun) {
        handshake(l, conn);
    } else if (c->spoke) {
        c->waits = true;
        (void)begin_waiting(l);
    }
}

/* Make room for another connection without a greeting. Those that have sent nothing give way
 * first, of them those of the address with most, at random. */
static void make_room_for_stranger(struct uw_link_tcp *l)
{
    uint16_t worst = UW_TCP_NONE;
    uint32_t n = 0, worst_crowd = 0, equal_n = 0;
    for (uint16_t i = 0; i < l->conns_n; i++) {
        const struct uw_link_tcp_conn *c = &l->conns[i];
        if (!is_stranger(c)) {
            continue;
        }
        n++;
        uint32_t crowd = crowd_of(l, c) + (c->spoke ? 0 : UINT16_MAX);
        bool worse = crowd > worst_crowd;
        equal_n = worse ? 1u : equal_n + (crowd == worst_crowd);
        if (worse || (crowd == worst_crowd && draw(l, equal_n))) {
            worst = i;
            worst_crowd = crowd;
        }
    }
    if (n >= (uint32_t)l->conns_n - l->addresses.slots_n) {
        release(l, worst);
    }
}

/* Read the greeting. A complete one assigns the connection to its station, or ends it. */
static void greet(struct uw_link_tcp *l, uint16_t conn)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    const uint8_t *g = c->greeting;
    int n = uw_tcp_read(l, c, c->greeting + c->greeting_n, UW_TCP_GREETING_BYTES - c->greeting_n);
    if (n == UW_ERR_AGAIN) {
        return;
    }
    c->greeting_n += n > 0 ? (uint32_t)n : 0;
    if (n > 0 && c->greeting_n < UW_TCP_GREETING_BYTES) {
        uw_tcp_make_ready(l, conn);
        return;
    }
    c->peer_id = uw_get_u64(g + 8);
    c->peer_serial = uw_get_u32(g + 16);
    c->peer_mtu = uw_get_u32(g + 20);
    if (n <= 0 || memcmp(g, magic, sizeof magic) != 0 || c->peer_id == l->id ||
        uw_get_u16(g + 4) == 0) {
        break_off(l, conn);
    } else {
        accept_peer(l, conn, uw_get_u16(g + 4));
    }
}

/* Events of the system. */

static void begin_accepted(struct uw_link_tcp *l, int fd)
{
    char text[UW_LINK_ADDRESS_BYTES] = "";
    struct uw_ip_address a;
    if (!uw_ip_address_of(fd, true, &a)) {
        l->link.stats.dropped_n++;
        close(fd);
        return;
    }
    (void)uw_ip_address_print(&a, text);
    make_room_for_stranger(l);
    set_options(l, fd);
    uint16_t conn = open_conn(l, fd, UW_TCP_GREETING);
    l->conns[conn].from = a;
    if (!uw_tcp_secure(l, &l->conns[conn], text)) {
        release(l, conn);
    }
}

static void accept_some(struct uw_link_tcp *l)
{
    for (int i = 0; i < EVENTS; i++) {
        int fd = accept(l->listener, NULL, NULL);
        if (fd >= 0) {
            (void)fcntl(fd, F_SETFL, O_NONBLOCK);
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
            begin_accepted(l, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            uw_tcp_set_accepts(l, false);
            l->accept_us = l->now_us + ACCEPT_PAUSE_US;
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

static void begin_dialed(struct uw_link_tcp *l, uint16_t conn)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    char text[UW_LINK_ADDRESS_BYTES];
    int error = 0;
    socklen_t bytes = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0 || error != 0) {
        break_off(l, conn);
        return;
    }
    (void)uw_stations_describe(&l->addresses, c->station, text);
    uw_tcp_tried(l, c, true);
    c->state = UW_TCP_GREETING;
    c->since_us = l->now_us;
    if (!uw_tcp_secure(l, &l->conns[conn], text)) {
        break_off(l, conn);
    } else if (c->state == UW_TCP_SECURING) {
        handshake(l, conn);
    } else {
        begin_greeting(l, conn);
    }
}

static void take_event(struct uw_link_tcp *l, uint16_t conn, uint32_t events)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    if (c->state == UW_TCP_DIALING && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) {
        begin_dialed(l, conn);
    }
    if ((events & ~(uint32_t)EPOLLOUT) != 0 && c->fd >= 0) {
        c->readable = true;
        c->spoke = true;
        c->drained = false;
        c->ending = c->ending || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        uw_tcp_make_ready(l, conn);
    }
    if (c->fd >= 0 && c->state != UW_TCP_DIALING && (events & EPOLLOUT) != 0 &&
        uw_tcp_flush(c) == UW_ERR_CLOSED) {
        break_off(l, conn);
    }
}

/* Handle the system's events. Returns whether there were any. */
static bool poll_events(struct uw_link_tcp *l)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(l->link.fd, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        if (events[i].data.u32 == LISTENER) {
            accept_some(l);
        } else {
            take_event(l, (uint16_t)events[i].data.u32, events[i].events);
        }
    }
    return n > 0;
}

/* Take the first message of a connection: its bytes, or UW_ERR_AGAIN. */
static int take_front(struct uw_link_tcp *l, uint16_t conn, uint8_t **at)
{
    int rc = uw_tcp_front(l, &l->conns[conn], at);
    if (rc >= 0 || rc == UW_ERR_AGAIN) {
        return rc;
    }
    l->link.stats.dropped_n += rc == UW_ERR_TOOBIG;
    if (l->conns[conn].state == UW_TCP_UP) {
        break_off(l, conn);
    }
    release(l, conn);
    return UW_ERR_AGAIN;
}

int uw_tcp_next(struct uw_link_tcp *l, uint16_t *conn, uint8_t **at)
{
    for (int polls = 0;; polls++) {
        while (l->ready_n > 0) {
            uint16_t i = l->ready[l->ready_at];
            struct uw_link_tcp_conn *c = &l->conns[i];
            l->ready_at = (l->ready_at + 1u) % l->conns_n;
            l->ready_n--;
            c->queued = false;
            if (c->state == UW_TCP_SECURING) {
                secure(l, i);
            }
            if (c->state == UW_TCP_GREETING) {
                greet(l, i);
            }
            if ((c->state != UW_TCP_UP && c->state != UW_TCP_ENDED) || c->deferred) {
                continue;
            }
            int rc = take_front(l, i, at);
            if (rc >= 0) {
                uw_tcp_make_ready(l, i);
                *conn = i;
                return rc;
            }
        }
        if (polls == POLLS_MAX || !poll_events(l)) {
            return UW_ERR_AGAIN;
        }
    }
}

uint64_t uw_tcp_expire(struct uw_link_tcp *l)
{
    uint64_t next_us = uw_tcp_look(l), waiting_us = begin_waiting(l);
    next_us = waiting_us < next_us ? waiting_us : next_us;
    for (uint16_t i = 0; i < l->conns_n; i++) {
        const struct uw_link_tcp_conn *c = &l->conns[i];
        if (c->state != UW_TCP_DIALING && c->state != UW_TCP_SECURING &&
            c->state != UW_TCP_GREETING) {
            continue;
        }
        uint64_t end_us = c->since_us + (c->state == UW_TCP_DIALING ? CONNECT_US : GREETING_US);
        if (l->now_us >= end_us) {
            break_off(l, i);
        } else if (end_us < next_us) {
            next_us = end_us;
        }
    }
    if (!l->accepts) {
        if (l->now_us >= l->accept_us) {
            uw_tcp_set_accepts(l, true);
        } else if (l->accept_us < next_us) {
            next_us = l->accept_us;
        }
    }
    return next_us;
}
