/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/radio_udp.h"

#include "ip_errno.h"
#include "link_ip.h"
#include "radio_head.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define FOREIGN_MAX 64u         /* foreign frames that one call skips */
#define SOCKET_BUFFER_BYTES (1 << 20)

static struct uw_radio_udp *self(struct uw_radio *r)
{
    return (struct uw_radio_udp *)r; /* base is the first member */
}

static struct sockaddr_in group_address(const struct uw_radio_udp *r)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(r->port), .sin_addr.s_addr = r->group};
}

static int udp_send(struct uw_radio *radio, uint16_t to, const void *frame, uint32_t frame_bytes)
{
    struct uw_radio_udp *r = self(radio);
    struct sockaddr_in group = group_address(r);
    uint8_t head[UW_RADIO_UDP_HEAD_BYTES];
    if (frame_bytes > radio->frame_bytes) {
        return UW_ERR_TOOBIG;
    }
    uw_radio_put_head(radio, to, head);
    struct iovec parts[2] = {{head, sizeof head}, {(void *)(uintptr_t)frame, frame_bytes}};
    struct msghdr message = {.msg_name = &group, .msg_namelen = sizeof group, .msg_iov = parts,
                             .msg_iovlen = 2};
    for (int i = 0; i < UW_IP_RETRIES; i++) {
        if (sendmsg(radio->fd, &message, MSG_NOSIGNAL) >= 0) {
            return UW_OK;
        }
        if (errno != EINTR && errno != ECONNREFUSED) {
            break;
        }
    }
    return uw_ip_send_error(errno);
}

static int udp_recv(struct uw_radio *radio, uint16_t *from, void *frame, uint32_t cap_bytes)
{
    struct uw_radio_udp *r = self(radio);
    for (uint32_t i = 0; i < FOREIGN_MAX; i++) {
        ssize_t n = recv(radio->fd, r->datagram, sizeof r->datagram, 0);
        if (n < 0) {
            int rc = uw_ip_recv_error(errno);
            if (rc < 0) {
                return rc;
            }
            continue;
        }
        if (!uw_radio_is_wanted(radio, r->datagram, (uint32_t)n)) {
            continue;
        }
        uint32_t bytes = (uint32_t)n - UW_RADIO_UDP_HEAD_BYTES;
        if (bytes > cap_bytes || bytes > UW_RADIO_FRAME_MAX) {
            return UW_ERR_TOOBIG;
        }
        *from = uw_get_u16(r->datagram + 2);
        if (bytes > 0) {
            memcpy(frame, r->datagram + UW_RADIO_UDP_HEAD_BYTES, bytes);
        }
        return (int)bytes;
    }
    return UW_ERR_AGAIN;
}

static uint64_t udp_airtime_us(const struct uw_radio *radio, uint32_t frame_bytes)
{
    uint64_t rate = ((const struct uw_radio_udp *)radio)->rate_bits_per_s;
    uint64_t bits = (uint64_t)(frame_bytes + UW_RADIO_UDP_HEAD_BYTES) * 8u;
    return rate != 0 ? (bits * 1000000u + rate - 1u) / rate : 0;
}

static const struct uw_radio_ops udp_ops = {
    .name = "udp", .send = udp_send, .recv = udp_recv, .airtime_us = udp_airtime_us};

static bool parse_group(const char *text, struct uw_ip_address *a)
{
    return text != NULL && uw_ip_address_parse(text, a) == UW_OK && uw_ip_address_is_ipv4(a) &&
           a->ip[12] >= 224 && a->ip[12] < 240;
}

bool uw_radio_udp_group_ok(const char *group)
{
    struct uw_ip_address a;
    return parse_group(group, &a);
}

/* Open a socket of the group on an interface; -1: see errno. */
static int open_group(const struct uw_radio_udp *r, struct in_addr interface)
{
    int fd = uw_ip_socket(false, SOCK_DGRAM);
    if (fd < 0) {
        return -1;
    }
    int yes = 1, hops = 1, buffer = SOCKET_BUFFER_BYTES;
    struct sockaddr_in group = group_address(r);
    struct ip_mreq join = {.imr_multiaddr = group.sin_addr, .imr_interface = interface};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) >= 0 &&
        bind(fd, (struct sockaddr *)&group, sizeof group) >= 0 &&
        setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join) >= 0 &&
        setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface) >= 0 &&
        setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &yes, sizeof yes) >= 0 &&
        setsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &hops, sizeof hops) >= 0) {
        return fd;
    }
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int uw_radio_udp_init(struct uw_radio_udp *r, const struct uw_radio_udp_config *config,
                      struct uw_error *err)
{
    struct uw_ip_address a;
    struct in_addr interface;
    const char *through = config->interface != NULL ? config->interface : "127.0.0.1";
    uint32_t bytes = config->frame_bytes != 0 ? config->frame_bytes : UW_RADIO_UDP_FRAME_DEFAULT;
    memset(r, 0, sizeof *r);
    r->base.fd = -1;
    if (!parse_group(config->group, &a)) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "\"%.60s\" is not a multicast group: write 239.255.85.87:4785",
                            config->group != NULL ? config->group : "");
    }
    if (inet_pton(AF_INET, through, &interface) != 1) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "\"%.60s\" is not an IPv4 address of an interface", through);
    }
    if (bytes < UW_RADIO_FRAME_MIN || bytes > UW_RADIO_FRAME_MAX ||
        config->address > UW_RADIO_ADDRESS_MAX) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "a radio has frames of %u to %u bytes and addresses up to %u",
                            UW_RADIO_FRAME_MIN, UW_RADIO_FRAME_MAX, UW_RADIO_ADDRESS_MAX);
    }
    memcpy(&r->group, a.ip + 12, sizeof r->group);
    r->port = a.port;
    r->base.fd = open_group(r, interface);
    if (r->base.fd < 0) {
        int error = errno;
        bool foreign = error == ENODEV || error == EADDRNOTAVAIL;
        return uw_error_set(err, UW_ERR_IO, "cannot join %s through %s: %s (%s)",
                            config->group, through,
                            foreign ? "not an address of this machine" : uw_ip_remedy(error),
                            strerror(error));
    }
    r->rate_bits_per_s = config->rate_bits_per_s;
    r->base.ops = &udp_ops;
    r->base.frame_bytes = bytes;
    r->base.duty_ppm = config->duty_ppm;
    r->base.address = config->address;
    r->base.broadcasts = true;
    return UW_OK;
}

void uw_radio_udp_deinit(struct uw_radio_udp *r)
{
    if (r->base.ops != NULL) {
        close(r->base.fd);
        r->base.fd = -1;
        r->base.ops = NULL;
    }
}
