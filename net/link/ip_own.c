/* SPDX-License-Identifier: Apache-2.0 */
#include "ip_own.h"

#include "link_ip.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define EACH_MOST 3u                /* of a family: a machine may have many virtual interfaces */

/* Is it local to a machine or a cable? */
static bool is_local(const struct uw_ip_address *a)
{
    if (uw_ip_address_is_ipv4(a)) {
        return a->ip[12] == 127 || (a->ip[12] == 169 && a->ip[13] == 254);
    }
    static const uint8_t loopback[16] = {[15] = 1};
    return (a->ip[0] == 0xfe && (a->ip[1] & 0xc0u) == 0x80) ||
           memcmp(a->ip, loopback, sizeof loopback) == 0;
}

static uint32_t put(const struct uw_ip_address *a, uint16_t port, uint8_t *out, uint32_t cap_bytes)
{
    bool ipv4 = uw_ip_address_is_ipv4(a);
    uint32_t ip_bytes = ipv4 ? 4u : 16u;
    if (is_local(a) || cap_bytes < ip_bytes + 3u) {
        return 0;
    }
    out[0] = ipv4 ? 4 : 6;
    memcpy(out + 1, a->ip + (ipv4 ? 12 : 0), ip_bytes);
    out[1u + ip_bytes] = (uint8_t)(port >> 8);
    out[2u + ip_bytes] = (uint8_t)port;
    return ip_bytes + 3u;
}

static uint32_t put_family(const struct ifaddrs *list, int family, uint16_t port, uint8_t *out,
                           uint32_t cap_bytes)
{
    uint32_t bytes = 0, n = 0;
    for (const struct ifaddrs *i = list; i != NULL && n < EACH_MOST; i = i->ifa_next) {
        struct sockaddr_storage s;
        struct uw_ip_address a;
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != family ||
            (i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) {
            continue;
        }
        memset(&s, 0, sizeof s);
        memcpy(&s, i->ifa_addr, family == AF_INET ? sizeof(struct sockaddr_in)
                                                  : sizeof(struct sockaddr_in6));
        if (uw_ip_address_from(&s, &a)) {
            uint32_t more = put(&a, port, out + bytes, cap_bytes - bytes);
            bytes += more;
            n += more != 0;
        }
    }
    return bytes;
}

uint32_t uw_ip_own(const struct uw_ip_address *bound, bool ipv4, bool ipv6, uint8_t *out,
                   uint32_t cap_bytes)
{
    struct ifaddrs *list = NULL;
    if (!uw_ip_address_is_any(bound)) {
        return put(bound, bound->port, out, cap_bytes);
    }
    if (getifaddrs(&list) != 0) {
        return 0;
    }
    uint32_t bytes = ipv4 ? put_family(list, AF_INET, bound->port, out, cap_bytes) : 0;
    if (ipv6) {
        bytes += put_family(list, AF_INET6, bound->port, out + bytes, cap_bytes - bytes);
    }
    freeifaddrs(list);
    return bytes;
}
