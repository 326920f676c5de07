/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_zsock.h"

#include "ip_address.h"
#include "ip_errno.h"
#include "station_table.h"

#include <errno.h>
#include <string.h>

#include <zephyr/net/socket.h>

/* sockaddr_storage has the size of the configured protocols only. */
union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t to_socket(const struct uw_ip_address *a, bool ipv6, union address *s)
{
    memset(s, 0, sizeof *s);
    if (ipv6) {
        s->v6.sin6_family = AF_INET6;
        s->v6.sin6_port = htons(a->port);
        s->v6.sin6_scope_id = (uint8_t)a->scope;    /* an interface's index; see parse */
        memcpy(&s->v6.sin6_addr, a->ip, 16);
        return sizeof s->v6;
    }
    s->v4.sin_family = AF_INET;
    s->v4.sin_port = htons(a->port);
    memcpy(&s->v4.sin_addr, a->ip + 12, 4);
    return sizeof s->v4;
}

static bool from_socket(const union address *s, struct uw_ip_address *a)
{
    memset(a, 0, sizeof *a);
    if (s->any.sa_family == AF_INET) {
        uint8_t ip[4];
        memcpy(ip, &s->v4.sin_addr, sizeof ip);
        uw_ip_address_set_ipv4(a, ip);
        a->port = ntohs(s->v4.sin_port);
        return true;
    }
    if (s->any.sa_family == AF_INET6) {
        memcpy(a->ip, &s->v6.sin6_addr, 16);
        a->scope = s->v6.sin6_scope_id;
        a->port = ntohs(s->v6.sin6_port);
        return true;
    }
    return false;
}

/* Zephyr numbers its interfaces by a byte. */
static int parse(const char *address, struct uw_ip_address *a)
{
    int rc = uw_ip_address_parse(address, a);
    return rc == UW_OK && a->scope > UINT8_MAX ? UW_ERR_NOTFOUND : rc;
}

static int zsock_link_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    struct uw_link_zsock *l = (struct uw_link_zsock *)link;
    struct uw_ip_address a = {.port = 0};
    int rc = parse(address, &a);
    if (rc == UW_OK && uw_ip_address_is_ipv4(&a) == l->ipv6) {
        rc = UW_ERR_NOTFOUND;
    }
    return rc < 0 ? rc : uw_stations_resolve(&l->stations, &a, station);
}

static int zsock_link_describe(struct uw_link *link, uint16_t station,
                               char text[UW_LINK_ADDRESS_BYTES])
{
    return uw_stations_describe(&((struct uw_link_zsock *)link)->stations, station, text);
}

static bool zsock_link_hold(struct uw_link *link, uint16_t station, bool hold)
{
    return uw_stations_hold(&((struct uw_link_zsock *)link)->stations, station, hold);
}

static int zsock_link_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_link_zsock *l = (struct uw_link_zsock *)link;
    if (to == UW_LINK_STATION_BROADCAST) {
        return UW_ERR_UNSUPPORTED;
    }
    const struct uw_ip_address *a = uw_stations_address(&l->stations, to, true);
    if (a == NULL) {
        return UW_ERR_NOTFOUND;
    }
    union address s;
    socklen_t bytes = to_socket(a, l->ipv6, &s);
    if (zsock_sendto(link->fd, buf, buf_bytes, ZSOCK_MSG_DONTWAIT, &s.any, bytes) >= 0) {
        link->stats.sent_n++;
        link->stats.sent_bytes += buf_bytes;
        return UW_OK;
    }
    int rc = uw_ip_send_error(errno);
    link->stats.dropped_n += rc == UW_OK;
    return rc;
}

static int zsock_link_recv_view(struct uw_link *link, uint16_t *from, void **view)
{
    struct uw_link_zsock *l = (struct uw_link_zsock *)link;
    *view = l->stations.datagram;
    for (int i = 0; i < UW_IP_RETRIES; i++) {
        union address s;
        socklen_t bytes = sizeof s;
        memset(&s, 0, sizeof s);
        int n = (int)zsock_recvfrom(link->fd, l->stations.datagram, link->mtu_bytes + 1u,
                                    ZSOCK_MSG_DONTWAIT, &s.any, &bytes);
        if (n < 0) {
            int failed = uw_ip_recv_error(errno);
            if (failed < 0) {
                return failed;
            }
            continue;
        }
        struct uw_ip_address a;
        int rc = uw_stations_receive(&l->stations, link, from_socket(&s, &a) ? &a : NULL, (size_t)n,
                                     from);
        if (rc != UW_ERR_AGAIN) {
            return rc;
        }
    }
    return UW_ERR_AGAIN;
}

static uint64_t zsock_link_step(struct uw_link *link, uint64_t now_us)
{
    (void)link;
    (void)now_us;
    return UINT64_MAX;
}

static void zsock_link_deinit(struct uw_link *link)
{
    (void)zsock_close(link->fd);
    link->fd = -1;
    link->ops = NULL;
}

static const struct uw_link_ops zsock_ops = {
    .name = "zsock",
    .resolve = zsock_link_resolve,
    .describe = zsock_link_describe,
    .hold = zsock_link_hold,
    .send = zsock_link_send,
    .step = zsock_link_step,
    .deinit = zsock_link_deinit,
    .recv_view = zsock_link_recv_view,
};

static uint32_t mtu_of(const struct uw_link_zsock_config *c)
{
    return c->mtu_bytes != 0 ? c->mtu_bytes : UW_LINK_ZSOCK_MTU_DEFAULT;
}

size_t uw_link_zsock_bytes(const struct uw_link_zsock_config *config)
{
    if (config == NULL || mtu_of(config) > UW_LINK_ZSOCK_MTU_MAX) {
        return SIZE_MAX;
    }
    return uw_stations_bytes(config->stations_n, mtu_of(config));
}

/* Open and bind. any: every address, of IPv4 or, without it in the kernel, of IPv6. */
static int open_bound(struct uw_link_zsock *l, const struct uw_ip_address *a, bool any)
{
    l->ipv6 = !any && !uw_ip_address_is_ipv4(a);
    int fd = zsock_socket(l->ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM, IPPROTO_UDP);
    if (fd < 0 && any) {
        l->ipv6 = true;
        fd = zsock_socket(AF_INET6, SOCK_DGRAM, IPPROTO_UDP);
    }
    if (fd < 0) {
        return -1;
    }
    union address s;
    socklen_t bytes = to_socket(a, l->ipv6, &s);
    if (zsock_bind(fd, &s.any, bytes) < 0) {
        int error = errno;
        (void)zsock_close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int uw_link_zsock_init(struct uw_link_zsock *l, const struct uw_link_zsock_config *config,
                       struct uw_error *err)
{
    memset(l, 0, sizeof *l);
    l->link.fd = -1;
    size_t need = uw_link_zsock_bytes(config);
    if (need == SIZE_MAX) {
        return uw_error_set(err, UW_ERR_INVALID, "a UDP link carries 1 to %u bytes a message",
                            UW_LINK_ZSOCK_MTU_MAX);
    }
    if (config->memory == NULL || config->memory_bytes < need) {
        return uw_error_set(err, UW_ERR_NOMEM, "the UDP link needs %lu bytes of memory",
                            (unsigned long)need);
    }
    const char *text = config->bind != NULL ? config->bind : ":0";
    char host[UW_IP_HOST_BYTES];
    struct uw_ip_address a = {.port = 0};
    if (uw_ip_address_split(text, host, &a.port) < 0) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "\"%s\" is not an address: write 192.0.2.1:4433, [::]:4433 "
                            "or :4433",
                            text);
    }
    if (host[0] != '\0' && uw_ip_address_parse_host(host, &a) < 0) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "%s: needs a number, not a name",
                            text);
    }
    l->link.fd = open_bound(l, &a, host[0] == '\0');
    if (l->link.fd < 0) {
        return uw_error_set(err, UW_ERR_IO, "cannot bind %s: %s", text, uw_ip_remedy(errno));
    }
    uw_stations_init(&l->stations, config->memory, config->stations_n);
    l->link.mtu_bytes = mtu_of(config);
    l->link.burst_bytes = config->burst_bytes;
    l->link.burst_n = config->burst_n;
    l->link.ops = &zsock_ops;
    return UW_OK;
}

int uw_link_zsock_local(const struct uw_link_zsock *l, char text[UW_LINK_ADDRESS_BYTES])
{
    union address s;
    socklen_t bytes = sizeof s;
    struct uw_ip_address a;
    memset(&s, 0, sizeof s);
    if (l->link.ops == NULL || zsock_getsockname(l->link.fd, &s.any, &bytes) < 0 ||
        !from_socket(&s, &a)) {
        return UW_ERR_CLOSED;
    }
    return uw_ip_address_print(&a, text);
}
