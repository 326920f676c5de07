/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_udp.h"

#include "ip_errno.h"
#include "ip_own.h"
#include "link_ip.h"
#include "link_udp_io.h"
#include "station_table.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKET_BUFFER_DEFAULT (1 << 20)
#define RETRY_US 1000u
#define BLOCK_N 64u                     /* most datagrams of one system call */
#define BLOCK_BYTES 65507u              /* most bytes of one system call */
#define BLOCK_IN_BYTES 65536u           /* largest block received */
#define TOGETHER_BYTES (BLOCK_BYTES + BLOCK_IN_BYTES)
#define OWN_SILENT_US 10000000u         /* the network may have changed: the system chooses again */

static int udp_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
    struct uw_ip_address a;
    int rc = uw_ip_resolve(address, !l->ipv6 ? UW_IP_V4 : !l->ipv4 ? UW_IP_V6 : UW_IP_ANY, &a);
    bool is_new = false;
    rc = rc < 0 ? rc : uw_stations_enter(&l->stations, &a, station, &is_new);
    if (rc == UW_OK) {
        (void)uw_stations_hold(&l->stations, *station, true);
    }
    if (is_new) {
        l->own[*station] = (struct uw_udp_own){.interface = 0};
    }
    return rc;
}

static int udp_describe(struct uw_link *link, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    return uw_stations_describe(&((struct uw_link_udp *)link)->stations, station, text);
}

static bool udp_hold(struct uw_link *link, uint16_t station, bool hold)
{
    return uw_stations_hold(&((struct uw_link_udp *)link)->stations, station, hold);
}

/* The address that a station asked: answers leave from there. */
static struct uw_udp_own *own_of(struct uw_link_udp *l, uint16_t station)
{
    struct uw_udp_own *own = &l->own[station];
    if (l->now_us - own->heard_us > OWN_SILENT_US) {
        *own = (struct uw_udp_own){.heard_us = l->now_us};
    }
    return own;
}

/* Send one datagram. Returns as uw_ip_send_error; UW_OK also for a lost one. */
static int send_one(struct uw_link_udp *l, uint16_t to, const struct uw_ip_address *a,
                    const void *buf, uint32_t buf_bytes)
{
    struct uw_udp_own *own = own_of(l, to);
    int n = uw_udp_send(l->link.fd, l->ipv6, a, own, buf, buf_bytes, 0);
    int rc = n < 0 ? uw_ip_send_error(errno) : UW_OK;
    if (n < 0 && (rc == UW_OK || rc == UW_ERR_IO) && uw_udp_own_is_known(own)) {
        *own = (struct uw_udp_own){.heard_us = l->now_us};  /* this end has lost that address */
        n = uw_udp_send(l->link.fd, l->ipv6, a, own, buf, buf_bytes, 0);
        rc = n < 0 ? uw_ip_send_error(errno) : UW_OK;
    }
    if (n >= 0) {
        l->link.stats.sent_n++;
        l->link.stats.sent_bytes += buf_bytes;
    } else {
        l->link.stats.dropped_n += rc == UW_OK;
    }
    return rc;
}

static struct uw_ip_address address_of(const struct uw_link_udp_block *b)
{
    struct uw_ip_address a = {.scope = b->scope, .port = b->port};
    memcpy(a.ip, b->ip, sizeof a.ip);
    return a;
}

static void set_address(struct uw_link_udp_block *b, const struct uw_ip_address *a)
{
    memcpy(b->ip, a->ip, sizeof b->ip);
    b->scope = a->scope;
    b->port = a->port;
}

/* Size of l->in; one byte more than the mtu detects messages that are too large. */
static uint32_t room_of(const struct uw_link_udp *l)
{
    return l->out.bytes != NULL ? BLOCK_IN_BYTES : l->link.mtu_bytes + 1u;
}

static uint32_t next_bytes(const struct uw_link_udp_block *b)
{
    uint32_t left = b->end - b->at;
    return left < b->each_bytes ? left : b->each_bytes;
}

/* Send the waiting messages in one call: all or none. Returns UW_OK, UW_ERR_AGAIN, or
 * UW_ERR_UNSUPPORTED: send them one by one, also to find out which are lost. */
static int send_block(struct uw_link_udp *l, const struct uw_ip_address *a)
{
    const struct uw_link_udp_block *b = &l->out;
    uint32_t bytes = b->end - b->at;
    if (!uw_udp_sends_blocks()) {
        return UW_ERR_UNSUPPORTED;
    }
    if (uw_udp_send(l->link.fd, l->ipv6, a, own_of(l, b->station), b->bytes + b->at, bytes,
                    b->each_bytes) >= 0) {
        l->link.stats.sent_n += (bytes + b->each_bytes - 1u) / b->each_bytes;
        l->link.stats.sent_bytes += bytes;
        return UW_OK;
    }
    /* Other errors: too large for the path, a device without checksums, an old kernel, an address
     * that this end has lost. */
    return uw_ip_send_error(errno) == UW_ERR_AGAIN ? UW_ERR_AGAIN : UW_ERR_UNSUPPORTED;
}

/* Send the waiting messages. Returns UW_OK or UW_ERR_AGAIN (some still wait). */
static int flush(struct uw_link_udp *l)
{
    struct uw_link_udp_block *b = &l->out;
    struct uw_ip_address a = address_of(b);
    int rc = b->end - b->at > b->each_bytes ? send_block(l, &a) : UW_ERR_UNSUPPORTED;
    if (rc == UW_OK) {
        b->at = b->end;
    }
    while (rc != UW_ERR_AGAIN && b->at < b->end) {
        uint32_t bytes = next_bytes(b);
        rc = send_one(l, b->station, &a, b->bytes + b->at, bytes);
        if (rc != UW_ERR_AGAIN) {
            b->at += bytes;
            l->link.stats.dropped_n += rc < 0;
        }
    }
    if (b->at == b->end) {
        b->at = b->end = 0;
        rc = UW_OK;
    }
    return rc;
}

static bool fits(const struct uw_link_udp_block *b, const struct uw_ip_address *a, uint32_t bytes)
{
    struct uw_ip_address to = address_of(b);
    return b->end % b->each_bytes == 0 && b->end / b->each_bytes < BLOCK_N &&
           bytes <= b->each_bytes && b->end + bytes <= BLOCK_BYTES &&
           uw_ip_address_equal(&to, a);
}

static int udp_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
    struct uw_link_udp_block *b = &l->out;
    if (to == UW_LINK_STATION_BROADCAST) {
        return UW_ERR_UNSUPPORTED;
    }
    const struct uw_ip_address *a = uw_stations_address(&l->stations, to, true);
    if (a == NULL) {
        return UW_ERR_NOTFOUND;
    }
    if (b->bytes != NULL && b->end != 0 && (buf_bytes == 0 || !fits(b, a, buf_bytes)) &&
        flush(l) < 0) {
        return UW_ERR_AGAIN;
    }
    if (b->bytes == NULL || buf_bytes == 0) {
        return send_one(l, to, a, buf, buf_bytes);
    }
    if (b->end == 0) {
        set_address(b, a);
        b->station = to;
        b->each_bytes = buf_bytes;
    }
    memcpy(b->bytes + b->end, buf, buf_bytes);
    b->end += buf_bytes;
    return UW_OK;
}

/* Receive a block into l->in.
 * Returns UW_OK, UW_ERR_AGAIN (none, or of an unknown family), UW_ERR_CLOSED, UW_ERR_IO. */
static int fill_block(struct uw_link_udp *l)
{
    struct uw_link_udp_block *b = &l->in;
    for (int i = 0; i < UW_IP_RETRIES; i++) {
        struct uw_ip_address a;
        struct uw_udp_own *own = &l->own[l->stations.slots_n];
        int n = uw_udp_receive(l->link.fd, b->bytes, room_of(l), &b->each_bytes, &a, own);
        int rc = n < 0 ? uw_ip_recv_error(errno) : UW_OK;
        if (n >= 0 && a.port != 0) {
            b->at = 0;
            b->end = (uint32_t)n;
            set_address(b, &a);
            return UW_OK;
        }
        if (rc < 0) {
            return rc;
        }
        l->link.stats.dropped_n += n >= 0;
    }
    return UW_ERR_AGAIN;
}

static int udp_recv_view(struct uw_link *link, uint16_t *from, void **view)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
    struct uw_link_udp_block *b = &l->in;
    int rc = UW_ERR_AGAIN;
    for (int i = 0; i < UW_IP_RETRIES && rc == UW_ERR_AGAIN; i++) {
        if (b->at == b->end) {
            (void)flush(l);     /* the caller may wait next */
            rc = fill_block(l);
            if (rc < 0) {
                return rc;
            }
        }
        struct uw_ip_address a = address_of(b);
        uint32_t bytes = next_bytes(b);
        *view = b->bytes + b->at;
        b->at += bytes;
        rc = uw_stations_receive(&l->stations, link, &a, bytes, from);
    }
    if (rc != UW_ERR_AGAIN) {
        l->own[*from] = l->own[l->stations.slots_n];
        l->own[*from].heard_us = l->now_us;
    }
    return rc;
}

/* Messages in l->in do not make the socket readable. */
static uint64_t udp_step(struct uw_link *link, uint64_t now_us)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
    l->now_us = now_us;
    int rc = flush(l);
    return l->in.at < l->in.end ? now_us : rc == UW_ERR_AGAIN ? now_us + RETRY_US : UINT64_MAX;
}

static void udp_deinit(struct uw_link *link)
{
    (void)flush((struct uw_link_udp *)link);
    close(link->fd);
    link->fd = -1;
    link->ops = NULL;
}

static const struct uw_link_ops udp_ops = {
    .name = "udp",
    .resolve = udp_resolve,
    .describe = udp_describe,
    .hold = udp_hold,
    .send = udp_send,
    .step = udp_step,
    .deinit = udp_deinit,
    .recv_view = udp_recv_view,
};

static uint32_t mtu_of(const struct uw_link_udp_config *c)
{
    return c->mtu_bytes != 0 ? c->mtu_bytes : UW_LINK_UDP_MTU_DEFAULT;
}

/* Of each station, and of the sender of l->in. */
static size_t own_bytes(const struct uw_link_udp_config *c)
{
    uint32_t stations_n = c->stations_n != 0 ? c->stations_n : UW_STATIONS_DEFAULT;
    return (stations_n + 1u) * sizeof(struct uw_udp_own);
}

size_t uw_link_udp_bytes(const struct uw_link_udp_config *config)
{
    if (config == NULL || mtu_of(config) > UW_LINK_UDP_MTU_MAX) {
        return SIZE_MAX;
    }
    size_t bytes = uw_stations_bytes(config->stations_n, mtu_of(config));
    if (bytes == SIZE_MAX) {
        return SIZE_MAX;
    }
    return own_bytes(config) + bytes + (config->together ? TOGETHER_BYTES : 0);
}

int uw_link_udp_init(struct uw_link_udp *l, const struct uw_link_udp_config *config,
                     struct uw_error *err)
{
    memset(l, 0, sizeof *l);
    l->link.fd = -1;
    size_t need = uw_link_udp_bytes(config);
    if (need == SIZE_MAX) {
        return uw_error_set(err, UW_ERR_INVALID, "a UDP link carries 1 to %u bytes a message",
                            UW_LINK_UDP_MTU_MAX);
    }
    if (config->memory == NULL || config->memory_bytes < need) {
        return uw_error_set(err, UW_ERR_NOMEM, "the UDP link needs %lu bytes of memory",
                            (unsigned long)need);
    }
    int fd = uw_ip_open(config->bind, SOCK_DGRAM, &l->ipv4, &l->ipv6, err);
    if (fd < 0) {
        return fd;
    }
    int buffer = config->socket_buffer_bytes != 0 && config->socket_buffer_bytes <= INT32_MAX
                     ? (int)config->socket_buffer_bytes
                     : SOCKET_BUFFER_DEFAULT;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    l->link.fd = fd;
    l->own = config->memory;
    memset(l->own, 0, own_bytes(config));
    uw_stations_init(&l->stations, (uint8_t *)config->memory + own_bytes(config),
                     config->stations_n);
    uw_udp_ask_own(fd, l->ipv6);
    l->in.bytes = l->stations.datagram;
    if (config->together) {
        l->in.bytes = (uint8_t *)config->memory + need - TOGETHER_BYTES;
        l->out.bytes = l->in.bytes + BLOCK_IN_BYTES;
        uw_udp_ask_blocks(fd);
    }
    l->link.mtu_bytes = mtu_of(config);
    l->link.ops = &udp_ops;
    return UW_OK;
}

int uw_link_udp_local(const struct uw_link_udp *l, char text[UW_LINK_ADDRESS_BYTES])
{
    struct uw_ip_address a;
    if (l->link.ops == NULL || !uw_ip_address_of(l->link.fd, false, &a)) {
        return UW_ERR_CLOSED;
    }
    return uw_ip_address_print(&a, text);
}

uint32_t uw_link_udp_own(const struct uw_link_udp *l, uint8_t *out, uint32_t cap_bytes)
{
    struct uw_ip_address a;
    if (l->link.ops == NULL || !uw_ip_address_of(l->link.fd, false, &a)) {
        return 0;
    }
    return uw_ip_own(&a, l->ipv4, l->ipv6, out, cap_bytes);
}
