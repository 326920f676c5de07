/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_udp.h"

#include "link_ip.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STATIONS_DEFAULT 64u
#define SOCKET_BUFFER_DEFAULT (1 << 20)
#define RETRIES 16              /* datagrams or pending ICMP errors skipped in one call */

struct uw_link_udp_station {
    struct uw_ip_address address;
    uint64_t used_at;           /* 0: the slot is free */
    bool held;
};

static struct uw_link_udp_station *station_at(struct uw_link_udp *l, uint16_t number)
{
    return number < l->stations_n && l->stations[number].used_at != 0 ? &l->stations[number]
                                                                      : NULL;
}

/* The station of an address: known, in a free slot, or in the one recycled. */
static int enter(struct uw_link_udp *l, const struct uw_ip_address *a, uint16_t *number)
{
    const struct uw_link_udp_station *last = station_at(l, l->last);
    uint16_t slot = UW_LINK_STATION_NONE;
    if (last != NULL && uw_ip_address_equal(&last->address, a)) {
        slot = l->last;
    } else {
        for (uint16_t i = 0; i < l->stations_n; i++) {
            const struct uw_link_udp_station *s = &l->stations[i];
            if (s->used_at != 0 && uw_ip_address_equal(&s->address, a)) {
                slot = i;
                break;
            }
            if (!s->held && (slot == UW_LINK_STATION_NONE ||
                             s->used_at < l->stations[slot].used_at)) {
                slot = i;
            }
        }
    }
    if (slot == UW_LINK_STATION_NONE) {
        return UW_ERR_FULL;
    }
    struct uw_link_udp_station *s = &l->stations[slot];
    if (s->used_at == 0 || !uw_ip_address_equal(&s->address, a)) {
        *s = (struct uw_link_udp_station){.address = *a};
    }
    s->used_at = ++l->uses_n;
    l->last = slot;
    *number = slot;
    return UW_OK;
}

static int udp_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
    struct uw_ip_address a;
    int rc = uw_ip_resolve(address, !l->ipv6 ? UW_IP_V4 : !l->ipv4 ? UW_IP_V6 : UW_IP_ANY, &a);
    rc = rc < 0 ? rc : enter(l, &a, station);
    if (rc == UW_OK) {
        l->stations[*station].held = true;
    }
    return rc;
}

static int udp_describe(struct uw_link *link, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    const struct uw_link_udp_station *s = station_at((struct uw_link_udp *)link, station);
    return s != NULL ? uw_ip_address_print(&s->address, text) : UW_ERR_NOTFOUND;
}

static bool udp_hold(struct uw_link *link, uint16_t station, bool hold)
{
    struct uw_link_udp_station *s = station_at((struct uw_link_udp *)link, station);
    bool before = s != NULL && s->held;
    if (s != NULL) {
        s->held = hold;
    }
    return before;
}

/* What a datagram's path reports, often about an earlier one: the datagram is lost, no more. */
static bool is_lost_on_the_way(int error)
{
    return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EHOSTDOWN || error == ENETDOWN || error == EPERM || error == EACCES ||
           error == EADDRNOTAVAIL;
}

static int udp_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
    if (to == UW_LINK_STATION_BROADCAST) {
        return UW_ERR_UNSUPPORTED;
    }
    struct uw_link_udp_station *s = station_at(l, to);
    if (s == NULL) {
        return UW_ERR_NOTFOUND;
    }
    struct sockaddr_storage address;
    socklen_t address_bytes = uw_ip_address_to(&s->address, l->ipv6, &address);
    s->used_at = ++l->uses_n;
    for (int i = 0; i < RETRIES; i++) {
        ssize_t n = sendto(link->fd, buf, buf_bytes, MSG_NOSIGNAL, (struct sockaddr *)&address,
                           address_bytes);
        if (n >= 0) {
            link->stats.sent_n++;
            link->stats.sent_bytes += buf_bytes;
            return UW_OK;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM) {
            return UW_ERR_AGAIN;
        }
        if (errno == EMSGSIZE) {
            return UW_ERR_TOOBIG;
        }
        if (errno != EINTR && errno != ECONNREFUSED) {
            break;
        }
    }
    if (!is_lost_on_the_way(errno) && errno != EINTR) {
        return errno == EBADF || errno == EPIPE ? UW_ERR_CLOSED : UW_ERR_IO;
    }
    link->stats.dropped_n++;
    return UW_OK;
}

static int udp_recv(struct uw_link *link, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
    for (int i = 0; i < RETRIES; i++) {
        struct sockaddr_storage sender;
        socklen_t sender_bytes = sizeof sender;
        memset(&sender, 0, sizeof sender);
        ssize_t n = recvfrom(link->fd, l->datagram, link->mtu_bytes + 1u, 0,
                             (struct sockaddr *)&sender, &sender_bytes);
        if (n < 0) {
            if (errno == EINTR || is_lost_on_the_way(errno)) {
                continue;
            }
            bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ||
                         errno == ENOMEM;
            return later ? UW_ERR_AGAIN : errno == EBADF ? UW_ERR_CLOSED : UW_ERR_IO;
        }
        struct uw_ip_address a;
        if (!uw_ip_address_from(&sender, &a) || enter(l, &a, from) < 0) {
            link->stats.dropped_n++;
            continue;
        }
        if (n > (ssize_t)link->mtu_bytes || n > (ssize_t)cap_bytes) {
            link->stats.dropped_n++;
            return UW_ERR_TOOBIG;
        }
        if (n > 0) {
            memcpy(buf, l->datagram, (size_t)n);
        }
        link->stats.received_n++;
        link->stats.received_bytes += (uint64_t)n;
        return (int)n;
    }
    return UW_ERR_AGAIN;
}

static uint64_t udp_step(struct uw_link *link, uint64_t now_us)
{
    (void)link;
    (void)now_us;
    return UINT64_MAX;
}

static void udp_deinit(struct uw_link *link)
{
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
    .recv = udp_recv,
    .step = udp_step,
    .deinit = udp_deinit,
};

static uint16_t stations_of(const struct uw_link_udp_config *c)
{
    return c->stations_n != 0 ? c->stations_n : STATIONS_DEFAULT;
}

static uint32_t mtu_of(const struct uw_link_udp_config *c)
{
    return c->mtu_bytes != 0 ? c->mtu_bytes : UW_LINK_UDP_MTU_DEFAULT;
}

size_t uw_link_udp_bytes(const struct uw_link_udp_config *config)
{
    if (config == NULL || stations_of(config) >= UW_LINK_STATION_BROADCAST ||
        mtu_of(config) > UW_LINK_UDP_MTU_MAX) {
        return SIZE_MAX;
    }
    return stations_of(config) * sizeof(struct uw_link_udp_station) + mtu_of(config) + 1u;
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
    l->stations_n = stations_of(config);
    l->stations = config->memory;
    memset(l->stations, 0, l->stations_n * sizeof *l->stations);
    l->datagram = (uint8_t *)(l->stations + l->stations_n);
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
