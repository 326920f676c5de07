/* SPDX-License-Identifier: Apache-2.0
 *
 * link_udp_names.h - addresses of hosts, for the UDP link: written as numbers, or by name
 *
 * The system's resolver may keep a caller waiting for half a minute, so a name is looked up by a
 * thread of its own: uw_udp_host_find starts one and says UW_ERR_AGAIN until the answer is there.
 * The threads work on a small table of the process and touch nothing of the link that asked, so a
 * link that closes waits for none of them; at the end of the process they are left behind.
 *
 * Memory     static: UW_UDP_LOOKUPS entries      Context  any thread
 */
#ifndef UW_NET_LINK_UDP_NAMES_H
#define UW_NET_LINK_UDP_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#define UW_UDP_HOST_BYTES 256u          /* a host's name with its NUL */
#define UW_UDP_LOOKUPS 8u               /* names looked up at once */

/* An address in one form for both families: IPv4 is kept as ::ffff:a.b.c.d. */
struct uw_udp_address {
    uint8_t ip[16];
    uint32_t scope;
    uint16_t port;                      /* host order */
};

enum uw_udp_family { UW_UDP_ANY, UW_UDP_IPV4, UW_UDP_IPV6 };

struct sockaddr_storage;

/* Returns false for a family that is neither IPv4 nor IPv6. */
bool uw_udp_address_from(const struct sockaddr_storage *s, struct uw_udp_address *a);

bool uw_udp_address_is_ipv4(const struct uw_udp_address *a);

/* A host's address, port 0; a name is asked of the system's resolver, which may take long.
 * Returns UW_OK or UW_ERR_NOTFOUND. */
int uw_udp_host_wait(const char *host, enum uw_udp_family family, struct uw_udp_address *a);

/* The same without waiting. An answer is given out once; the next call looks the name up anew. One
 * that nobody came for in half a minute is forgotten.
 * Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_AGAIN (being looked up, or too many others are). */
int uw_udp_host_find(const char *host, enum uw_udp_family family, struct uw_udp_address *a);

/* For tests: what looks names up from now on, from any thread; NULL: the system's resolver. */
typedef int (*uw_udp_resolver_fn)(const char *host, enum uw_udp_family family,
                                  struct uw_udp_address *a);
void uw_udp_set_resolver(uw_udp_resolver_fn resolver);

#endif
