/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_udp.h"

#include "ip_errno.h"
#include "link_ip.h"
#include "stations.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKET_BUFFER_DEFAULT (1 << 20)

static int udp_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
    struct uw_ip_address a;
    int rc = uw_ip_resolve(address, !l->ipv6 ? UW_IP_V4 : !l->ipv4 ? UW_IP_V6 : UW_IP_ANY, &a);
    rc = rc < 0 ? rc : uw_stations_enter(&l->stations, &a, station);
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

static int udp_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
    if (to == UW_LINK_STATION_BROADCAST) {
        return UW_ERR_UNSUPPORTED;
    }
    const struct uw_ip_address *a = uw_stations_address(&l->stations, to, true);
    if (a == NULL) {
        return UW_ERR_NOTFOUND;
    }
    struct sockaddr_storage address;
    socklen_t address_bytes = uw_ip_address_to(a, l->ipv6, &address);
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

static int udp_recv(struct uw_link *link, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct uw_link_udp *l = (struct uw_link_udp *)link;
    for (int i = 0; i < UW_IP_RETRIES; i++) {
        struct sockaddr_storage sender;
        socklen_t sender_bytes = sizeof sender;
        memset(&sender, 0, sizeof sender);
        ssize_t n = recvfrom(link->fd, l->stations.datagram, link->mtu_bytes + 1u, 0,
                             (struct sockaddr *)&sender, &sender_bytes);
        if (n < 0) {
            int failed = uw_ip_recv_error(errno);
            if (failed < 0) {
                return failed;
            }
            continue;
        }
        struct uw_ip_address a;
        int rc = uw_stations_take(&l->stations, link, uw_ip_address_from(&sender, &a) ? &a : NULL,
                                  (size_t)n, from, buf, cap_bytes);
        if (rc != UW_ERR_AGAIN) {
            return rc;
        }
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

static uint32_t mtu_of(const struct uw_link_udp_config *c)
{
    return c->mtu_bytes != 0 ? c->mtu_bytes : UW_LINK_UDP_MTU_DEFAULT;
}

size_t uw_link_udp_bytes(const struct uw_link_udp_config *config)
{
    if (config == NULL || mtu_of(config) > UW_LINK_UDP_MTU_MAX) {
        return SIZE_MAX;
    }
    return uw_stations_bytes(config->stations_n, mtu_of(config));
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
