/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* struct in6_pktinfo */
#include "link_udp_io.h"

#include "ip_errno.h"
#include "link_ip.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#if defined(IPV6_RECVPKTINFO) && defined(IP_PKTINFO)
#define HAS_OWN 1
#define OWN_BYTES (CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo)))
#else
#define HAS_OWN 0
#define OWN_BYTES 0
#endif

/* Aligned control messages. */
union control {
    struct cmsghdr head;
    uint8_t bytes[CMSG_SPACE(sizeof(int)) + OWN_BYTES];
};

bool uw_udp_own_is_known(const struct uw_udp_own *own)
{
    static const uint8_t zeros[16];
    return memcmp(own->ip, zeros, sizeof zeros) != 0;
}

void uw_udp_ask_own(int fd, bool ipv6)
{
#if HAS_OWN
    struct uw_ip_address bound;
    int on = 1;
    if (uw_ip_address_of(fd, false, &bound) && uw_ip_address_is_any(&bound)) {
        (void)setsockopt(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
                         ipv6 ? IPV6_RECVPKTINFO : IP_PKTINFO, &on, sizeof on);
    }
#else
    (void)fd;
    (void)ipv6;
#endif
}

void uw_udp_ask_blocks(int fd)
{
#if defined(UDP_GRO)
    int on = 1;
    (void)setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
#else
    (void)fd;
#endif
}

bool uw_udp_sends_blocks(void)
{
#if defined(UDP_SEGMENT)
    return true;
#else
    return false;
#endif
}

/* ---- receive ---- */

#if HAS_OWN
static bool is_link_local(const uint8_t ip[16])
{
    return ip[0] == 0xfe && (ip[1] & 0xc0u) == 0x80;
}

/* A group or all of a network is no address to send from. */
static bool is_group(const struct uw_ip_address *a)
{
    return uw_ip_address_is_ipv4(a) ? a->ip[12] >= 224 : a->ip[0] == 0xff;
}

static void take_own(const struct cmsghdr *c, struct uw_udp_own *own)
{
    struct uw_ip_address a = {.ip = {0}};
    uint32_t interface = 0;
    if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO &&
        c->cmsg_len >= CMSG_LEN(sizeof(struct in6_pktinfo))) {
        struct in6_pktinfo info;
        memcpy(&info, CMSG_DATA(c), sizeof info);
        memcpy(a.ip, &info.ipi6_addr, sizeof a.ip);
        interface = is_link_local(a.ip) ? (uint32_t)info.ipi6_ifindex : 0;
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO &&
               c->cmsg_len >= CMSG_LEN(sizeof(struct in_pktinfo))) {
        struct in_pktinfo info;
        uint8_t ip[4];
        memcpy(&info, CMSG_DATA(c), sizeof info);
        memcpy(ip, &info.ipi_spec_dst, sizeof ip);
        uw_ip_address_set_ipv4(&a, ip);
    } else {
        return;
    }
    if (!is_group(&a)) {
        memcpy(own->ip, a.ip, sizeof own->ip);
        own->interface = interface;
    }
}
#endif

int uw_udp_receive(int fd, uint8_t *bytes, size_t cap_bytes, uint32_t *each_bytes,
                   struct uw_ip_address *from, struct uw_udp_own *own)
{
    union control control;
    struct sockaddr_storage sender;
    struct iovec part = {.iov_base = bytes, .iov_len = cap_bytes};
    struct msghdr m = {.msg_name = &sender, .msg_namelen = sizeof sender, .msg_iov = &part,
                       .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memset(&sender, 0, sizeof sender);
    memset(own, 0, sizeof *own);
    int n = (int)recvmsg(fd, &m, 0);
    *each_bytes = n > 0 ? (uint32_t)n : 0;
    if (n < 0 || !uw_ip_address_from(&sender, from)) {
        from->port = 0;
        return n;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c != NULL; c = CMSG_NXTHDR(&m, c)) {
#if defined(UDP_GRO)
        int each = 0;
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO &&
            c->cmsg_len >= CMSG_LEN(sizeof each)) {
            memcpy(&each, CMSG_DATA(c), sizeof each);
            *each_bytes = each > 0 && n > 0 ? (uint32_t)each : *each_bytes;
        }
#endif
#if HAS_OWN
        take_own(c, own);
#endif
    }
    return n;
}

/* ---- send ---- */

/* Add a control message. */
static void put(struct msghdr *m, union control *control, int level, int type, const void *data,
                size_t data_bytes)
{
    uint8_t *at = control->bytes + m->msg_controllen;
    struct cmsghdr head = {.cmsg_level = level, .cmsg_type = type};
    head.cmsg_len = CMSG_LEN(data_bytes);
    memset(at, 0, CMSG_SPACE(data_bytes));
    memcpy(at, &head, sizeof head);
    memcpy(at + CMSG_LEN(0), data, data_bytes);
    m->msg_control = control;
    m->msg_controllen += CMSG_SPACE(data_bytes);
}

static void put_own(struct msghdr *m, union control *control, bool ipv6,
                    const struct uw_udp_own *own)
{
#if HAS_OWN
    if (ipv6) {
        struct in6_pktinfo info = {.ipi6_ifindex = own->interface};
        memcpy(&info.ipi6_addr, own->ip, sizeof own->ip);
        put(m, control, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    } else {
        struct in_pktinfo info = {.ipi_ifindex = 0};
        memcpy(&info.ipi_spec_dst, own->ip + 12, 4);
        put(m, control, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    }
#else
    (void)m;
    (void)control;
    (void)ipv6;
    (void)own;
#endif
}

int uw_udp_send(int fd, bool ipv6, const struct uw_ip_address *to, const struct uw_udp_own *own,
                const void *bytes, size_t bytes_n, uint32_t each_bytes)
{
    union control control;
    struct sockaddr_storage address;
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = bytes_n};
    struct msghdr m = {.msg_name = &address, .msg_namelen = uw_ip_address_to(to, ipv6, &address),
                       .msg_iov = &part, .msg_iovlen = 1};
#if defined(UDP_SEGMENT)
    if (each_bytes != 0) {
        uint16_t each = (uint16_t)each_bytes;
        put(&m, &control, IPPROTO_UDP, UDP_SEGMENT, &each, sizeof each);
    }
#else
    (void)each_bytes;
#endif
    if (uw_udp_own_is_known(own)) {
        put_own(&m, &control, ipv6, own);
    }
    int n = -1;
    for (int i = 0; i < UW_IP_RETRIES && n < 0; i++) {
        n = (int)sendmsg(fd, &m, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR && errno != ECONNREFUSED) {
            break;
        }
    }
    return n;
}
