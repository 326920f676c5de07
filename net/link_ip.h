/* SPDX-License-Identifier: Apache-2.0
 *
 * link_ip.h - addresses of hosts, for links over IP: written as numbers, or by name
 *
 * The system's resolver may keep a caller waiting for half a minute, so a name is looked up by a
 * thread of its own: uw_ip_host_find starts one and says UW_ERR_AGAIN until the answer is there.
 * The threads work on a small table of the process and touch nothing of the link that asked, so a
 * link that closes waits for none of them; at the end of the process they are left behind.
 *
 * Memory     static: UW_IP_LOOKUPS entries      Context  any thread
 */
#ifndef UW_NET_LINK_IP_H
#define UW_NET_LINK_IP_H

#include "uwasa/link.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_IP_HOST_BYTES 256u          /* a host's name with its NUL */
#define UW_IP_LOOKUPS 8u               /* names looked up at once */

/* An address in one form for both families: IPv4 is kept as ::ffff:a.b.c.d. */
struct uw_ip_address {
    uint8_t ip[16];
    uint32_t scope;
    uint16_t port;                      /* host order */
};

enum uw_ip_family { UW_IP_ANY, UW_IP_V4, UW_IP_V6 };

struct sockaddr_storage;

/* Returns false for a family that is neither IPv4 nor IPv6. */
bool uw_ip_address_from(const struct sockaddr_storage *s, struct uw_ip_address *a);

bool uw_ip_address_is_ipv4(const struct uw_ip_address *a);

bool uw_ip_address_equal(const struct uw_ip_address *a, const struct uw_ip_address *b);

/* Fill a socket address of one family. Returns its bytes. */
uint32_t uw_ip_address_to(const struct uw_ip_address *a, bool ipv6, struct sockaddr_storage *s);

/* Write "10.0.0.9:4433" or "[fe80::1%2]:4433". Returns UW_OK. */
int uw_ip_address_print(const struct uw_ip_address *a, char text[UW_LINK_ADDRESS_BYTES]);

/* Cut "host:port" or "[v6]:port"; the host may be empty.
 * Returns UW_OK or UW_ERR_INVALID. */
int uw_ip_address_split(const char *text, char host[UW_IP_HOST_BYTES], uint16_t *port);

/* What to do about a socket that could not be bound, from errno. Static storage. */
const char *uw_ip_remedy(int error);

/* A host's address, port 0; a name is asked of the system's resolver, which may take long.
 * Returns UW_OK or UW_ERR_NOTFOUND. */
int uw_ip_host_wait(const char *host, enum uw_ip_family family, struct uw_ip_address *a);

/* The same without waiting. An answer is given out once; the next call looks the name up anew. One
 * that nobody came for in half a minute is forgotten.
 * Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_AGAIN (being looked up, or too many others are). */
int uw_ip_host_find(const char *host, enum uw_ip_family family, struct uw_ip_address *a);

/* "host:port" for a message to go there, looked up by uw_ip_host_find.
 * Returns what that does, and UW_ERR_INVALID without a host or a port. */
int uw_ip_resolve(const char *address, enum uw_ip_family family, struct uw_ip_address *a);

/* For tests: what looks names up from now on, from any thread; NULL: the system's resolver. */
typedef int (*uw_ip_resolver_fn)(const char *host, enum uw_ip_family family,
                                  struct uw_ip_address *a);
void uw_ip_set_resolver(uw_ip_resolver_fn resolver);

#endif
