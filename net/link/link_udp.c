/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_udp.h"

#include "ip_errno.h"
#include "link_ip.h"
#include "link_udp_many.h"
#include "stations.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKET_BUFFER_DEFAULT (1 << 20)
#define RETRY_US 1000u
#define TOGETHER_BYTES (UW_UDP_MANY_BYTES + UW_UDP_MANY_IN_BYTES)

static int udp_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
    struct uw_ip_address a;
    bool is_new;
    int rc = uw_ip_resolve(address, !l->ipv6 ? UW_IP_V4 : !l->ipv4 ? UW_IP_V6 : UW_IP_ANY, &a);
    rc = rc < 0 ? rc : uw_stations_enter(&l->stations, &a, station, &is_new);
    if (rc == UW_OK) {
        (void)uw_stations_hold(&l->stations, *station, true);
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

/* Hand one datagram over. Returns what uw_ip_send_error says, UW_OK also for one that is lost. */
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

/* Of l->in; one byte more than a message has shows those that are too large. */
static uint32_t room_of(const struct uw_link_udp *l)
{
    return l->out.bytes != NULL ? UW_UDP_MANY_IN_BYTES : l->link.mtu_bytes + 1u;
}

static uint32_t next_bytes(const struct uw_link_udp_block *b)
{
    uint32_t left = b->end - b->at;
    return left < b->each_bytes ? left : b->each_bytes;
}

/* Send what waits, together: all or nothing. Returns UW_OK, UW_ERR_AGAIN, or UW_ERR_UNSUPPORTED: it
 * is to be sent one by one, also to see what of it is lost. */
static int send_block(struct uw_link_udp *l, const struct uw_ip_address *a)
{
    const struct uw_link_udp_block *b = &l->out;
    uint32_t bytes = b->end - b->at;
    struct sockaddr_storage address;
    socklen_t address_bytes = uw_ip_address_to(a, l->ipv6, &address);
    for (int i = 0; i < UW_IP_RETRIES; i++) {
        if (uw_udp_many_send(l->link.fd, b->bytes + b->at, bytes, b->each_bytes, &address,
                             address_bytes) >= 0) {
            l->link.stats.sent_n += (bytes + b->each_bytes - 1u) / b->each_bytes;
            l->link.stats.sent_bytes += bytes;
            return UW_OK;
        }
        if (errno != EINTR && errno != ECONNREFUSED) {
            break;
        }
    }
    return uw_ip_send_error(errno) == UW_ERR_AGAIN ? UW_ERR_AGAIN : UW_ERR_UNSUPPORTED;
}

/* Send what waits. Returns UW_OK or UW_ERR_AGAIN (some of it waits on). */
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

/* May a message follow those that wait? */
static bool fits(const struct uw_link_udp_block *b, const struct uw_ip_address *a, uint32_t bytes)
{
    struct uw_ip_address to = address_of(b);
    return b->end % b->each_bytes == 0 && b->end / b->each_bytes < UW_UDP_MANY_N &&
           bytes <= b->each_bytes && b->end + bytes <= UW_UDP_MANY_BYTES &&
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

/* Take what arrived together into l->in.
 * Returns UW_OK, UW_ERR_AGAIN (nothing that can be answered), UW_ERR_CLOSED, UW_ERR_IO. */
static int take_block(struct uw_link_udp *l)
{
    struct uw_link_udp_block *b = &l->in;
    for (int i = 0; i < UW_IP_RETRIES; i++) {
        struct sockaddr_storage sender;
        struct uw_ip_address a;
        memset(&sender, 0, sizeof sender);
        ssize_t n = uw_udp_many_recv(l->link.fd, b->bytes, room_of(l), &b->each_bytes, &sender);
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
            (void)flush(l);     /* who hears nothing may wait next */
            rc = take_block(l);
            if (rc < 0) {
                return rc;
            }
        }
        struct uw_ip_address a = address_of(b);
        uint32_t bytes = next_bytes(b);
        *view = b->bytes + b->at;
        b->at += bytes;
        rc = uw_stations_take(&l->stations, link, &a, bytes, from);
    }
    return rc;
}

/* What waits here is not seen by who waits for the socket. */
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

/* Non-blocking, closed on exec, with large buffers (best effort). -1: errno says why. */
static int open_socket(int family, bool ipv6_only, int buffer_bytes)
{
    int fd = socket(family, SOCK_DGRAM, 0);
    if (fd < 0) {
        return -1;
    }
    int flags = fcntl(fd, F_GETFL);
    int v6only = ipv6_only;
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
        (family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only) < 0)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    return fd;
}

/* Open and bind. any: every address of both families, or of IPv4 where IPv6 is switched off. */
static int open_bound(struct uw_link_udp *l, struct uw_ip_address *a, bool any, int buffer_bytes)
{
    struct sockaddr_storage s;
    l->ipv6 = any || !uw_ip_address_is_ipv4(a);
    l->ipv4 = any || !l->ipv6;
    int fd = open_socket(l->ipv6 ? AF_INET6 : AF_INET, !any, buffer_bytes);
    if (fd < 0 && any) {
        l->ipv6 = false;
        fd = open_socket(AF_INET, false, buffer_bytes);
    }
    if (fd < 0) {
        return -1;
    }
    socklen_t bytes = uw_ip_address_to(a, l->ipv6, &s);
    if (bind(fd, (struct sockaddr *)&s, bytes) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
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
    const char *text = config->bind != NULL ? config->bind : ":0";
    char host[UW_IP_HOST_BYTES];
    uint16_t port;
    if (uw_ip_address_split(text, host, &port) < 0) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "\"%s\" is no address to bind: write 10.0.0.2:4433, [::1]:4433 "
                            "or :4433",
                            text);
    }
    struct uw_ip_address a = {.ip = {0}};
    if (host[0] != '\0' && uw_ip_host_wait(host, UW_IP_ANY, &a) < 0) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "%s: no such host", text);
    }
    a.port = port;
    int buffer = config->socket_buffer_bytes != 0 && config->socket_buffer_bytes <= INT32_MAX
                     ? (int)config->socket_buffer_bytes
                     : SOCKET_BUFFER_DEFAULT;
    l->link.fd = open_bound(l, &a, host[0] == '\0', buffer);
    if (l->link.fd < 0) {
        return uw_error_set(err, UW_ERR_IO, "cannot bind %s: %s", text, uw_ip_remedy(errno));
    }
    uw_stations_init(&l->stations, config->memory, config->stations_n);
    l->in.bytes = l->stations.datagram;
    if (config->together) {
        l->in.bytes = (uint8_t *)config->memory + need - TOGETHER_BYTES;
        l->out.bytes = l->in.bytes + UW_UDP_MANY_IN_BYTES;
        uw_udp_many_open(l->link.fd);
    }
    l->link.mtu_bytes = mtu_of(config);
    l->link.ops = &udp_ops;
    return UW_OK;
}

int uw_link_udp_local(const struct uw_link_udp *l, char text[UW_LINK_ADDRESS_BYTES])
{
    struct sockaddr_storage s;
    socklen_t bytes = sizeof s;
    struct uw_ip_address a;
    memset(&s, 0, sizeof s);
    if (l->link.ops == NULL || getsockname(l->link.fd, (struct sockaddr *)&s, &bytes) < 0 ||
        !uw_ip_address_from(&s, &a)) {
        return UW_ERR_CLOSED;
    }
    return uw_ip_address_print(&a, text);
}
