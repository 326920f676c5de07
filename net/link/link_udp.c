/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_udp.h"

#include "ip_errno.h"
#include "link_ip.h"
#include "station_table.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKET_BUFFER_DEFAULT (1 << 20)
#define RETRY_US 1000u
#define BLOCK_N 64u                     /* most datagrams of one system call */
#define BLOCK_BYTES 65507u              /* most bytes of one system call */
#define BLOCK_IN_BYTES 65536u           /* largest block received */
#define TOGETHER_BYTES (BLOCK_BYTES + BLOCK_IN_BYTES)

/* An aligned control message with an int. */
union control {
    struct cmsghdr head;
    uint8_t bytes[CMSG_SPACE(sizeof(int))];
};

static int udp_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
    struct uw_ip_address a;
    int rc = uw_ip_resolve(address, !l->ipv6 ? UW_IP_V4 : !l->ipv4 ? UW_IP_V6 : UW_IP_ANY, &a);
    return rc < 0 ? rc : uw_stations_resolve(&l->stations, &a, station);
}

static int udp_describe(struct uw_link *link, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    return uw_stations_describe(&((struct uw_link_udp *)link)->stations, station, text);
}

static bool udp_hold(struct uw_link *link, uint16_t station, bool hold)
{
    return uw_stations_hold(&((struct uw_link_udp *)link)->stations, station, hold);
}

/* Send one datagram. Returns as uw_ip_send_error; UW_OK also for a lost one. */
static int send_one(struct uw_link *link, const struct uw_ip_address *a, const void *buf,
                    uint32_t buf_bytes)
{
    struct sockaddr_storage address;
    socklen_t address_bytes = uw_ip_address_to(a, ((struct uw_link_udp *)link)->ipv6, &address);
    for (int i = 0; i < UW_IP_RETRIES; i++) {
        ssize_t n = sendto(link->fd, buf, buf_bytes, MSG_NOSIGNAL, (struct sockaddr *)&address,
                           address_bytes);
        if (n >= 0) {
            link->stats.sent_n++;
            link->stats.sent_bytes += buf_bytes;
            return UW_OK;
        }
        if (errno != EINTR && errno != ECONNREFUSED) {
            break;
        }
    }
    int rc = uw_ip_send_error(errno);
    link->stats.dropped_n += rc == UW_OK;
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
#if defined(UDP_SEGMENT)
static int send_block(struct uw_link_udp *l, const struct uw_ip_address *a)
{
    const struct uw_link_udp_block *b = &l->out;
    uint32_t bytes = b->end - b->at;
    uint16_t each = (uint16_t)b->each_bytes;
    struct sockaddr_storage address;
    union control control;
    struct iovec part = {.iov_base = b->bytes + b->at, .iov_len = bytes};
    struct msghdr m = {.msg_name = &address, .msg_namelen = uw_ip_address_to(a, l->ipv6, &address),
                       .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                       .msg_controllen = CMSG_SPACE(sizeof each)};
    memset(&control, 0, sizeof control);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = IPPROTO_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof each);
    memcpy(CMSG_DATA(c), &each, sizeof each);
    for (int i = 0; i < UW_IP_RETRIES; i++) {
        if (sendmsg(l->link.fd, &m, MSG_NOSIGNAL) >= 0) {
            l->link.stats.sent_n += (bytes + b->each_bytes - 1u) / b->each_bytes;
            l->link.stats.sent_bytes += bytes;
            return UW_OK;
        }
        if (errno != EINTR && errno != ECONNREFUSED) {
            break;
        }
    }
    /* Other errors: too large for the path, a device without checksums, an old kernel. */
    return uw_ip_send_error(errno) == UW_ERR_AGAIN ? UW_ERR_AGAIN : UW_ERR_UNSUPPORTED;
}
#else
static int send_block(struct uw_link_udp *l, const struct uw_ip_address *a)
{
    (void)l;
    (void)a;
    return UW_ERR_UNSUPPORTED;
}
#endif

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
        rc = send_one(&l->link, &a, b->bytes + b->at, bytes);
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
        return send_one(link, a, buf, buf_bytes);
    }
    if (b->end == 0) {
        set_address(b, a);
        b->each_bytes = buf_bytes;
    }
    memcpy(b->bytes + b->end, buf, buf_bytes);
    b->end += buf_bytes;
    return UW_OK;
}

/* Receive consecutive datagrams of one sender.
 *   each_bytes  set to the size of each; the last may be shorter
 * Returns as recvmsg. */
static ssize_t receive_block(int fd, uint8_t *bytes, size_t cap_bytes, uint32_t *each_bytes,
                             struct sockaddr_storage *from)
{
    union control control;
    struct iovec part = {.iov_base = bytes, .iov_len = cap_bytes};
    struct msghdr m = {.msg_name = from, .msg_namelen = sizeof *from, .msg_iov = &part,
                       .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &m, 0);
    *each_bytes = n > 0 ? (uint32_t)n : 0;
#if defined(UDP_GRO)
    for (struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL; c != NULL; c = CMSG_NXTHDR(&m, c)) {
        int each = 0;
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO &&
            c->cmsg_len >= CMSG_LEN(sizeof each)) {
            memcpy(&each, CMSG_DATA(c), sizeof each);
            *each_bytes = each > 0 ? (uint32_t)each : *each_bytes;
        }
    }
#endif
    return n;
}

/* Receive a block into l->in.
 * Returns UW_OK, UW_ERR_AGAIN (none, or of an unknown family), UW_ERR_CLOSED, UW_ERR_IO. */
static int fill_block(struct uw_link_udp *l)
{
    struct uw_link_udp_block *b = &l->in;
    for (int i = 0; i < UW_IP_RETRIES; i++) {
        struct sockaddr_storage sender;
        struct uw_ip_address a;
        memset(&sender, 0, sizeof sender);
        ssize_t n = receive_block(l->link.fd, b->bytes, room_of(l), &b->each_bytes, &sender);
        int rc = n < 0 ? uw_ip_recv_error(errno) : UW_OK;
        if (n >= 0 && uw_ip_address_from(&sender, &a)) {
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
    return rc;
}

/* Messages in l->in do not make the socket readable. */
static uint64_t udp_step(struct uw_link *link, uint64_t now_us)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
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

size_t uw_link_udp_bytes(const struct uw_link_udp_config *config)
{
    if (config == NULL || mtu_of(config) > UW_LINK_UDP_MTU_MAX) {
        return SIZE_MAX;
    }
    size_t bytes = uw_stations_bytes(config->stations_n, mtu_of(config));
    return bytes == SIZE_MAX || !config->together ? bytes : bytes + TOGETHER_BYTES;
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
    uw_stations_init(&l->stations, config->memory, config->stations_n);
    l->in.bytes = l->stations.datagram;
    if (config->together) {
        l->in.bytes = (uint8_t *)config->memory + need - TOGETHER_BYTES;
        l->out.bytes = l->in.bytes + BLOCK_IN_BYTES;
#if defined(UDP_GRO)
        int on = 1;
        (void)setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
#endif
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
