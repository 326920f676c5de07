/* SPDX-License-Identifier: Apache-2.0
 *
 * link_ip.h - addresses of hosts, for links over IP: written as numbers, or by name
 *
 * The system's resolver may keep a caller waiting for half a minute, so a name is looked up by a
 * thread of its own: uw_ip_resolve starts one and says UW_ERR_AGAIN until the answer is there.
 * The threads work on a small table of the process and touch nothing of the link that asked, so a
 * link that closes waits for none of them; at the end of the process they are left behind.
 *
 * Memory     static: UW_IP_LOOKUPS entries      Context  any thread
 */
#ifndef UW_NET_LINK_IP_H
#define UW_NET_LINK_IP_H

#include "ip_address.h"

struct uw_error;

#define UW_IP_LOOKUPS 8u               /* names looked up at once */

enum uw_ip_family { UW_IP_ANY, UW_IP_V4, UW_IP_V6 };

struct sockaddr_storage;

/* Returns false for a family that is neither IPv4 nor IPv6. */
bool uw_ip_address_from(const struct sockaddr_storage *s, struct uw_ip_address *a);

/* Fill a socket address of one family. Returns its bytes. */
uint32_t uw_ip_address_to(const struct uw_ip_address *a, bool ipv6, struct sockaddr_storage *s);

/* The address of a socket or, `peer`, of its other end. Returns whether it has one. */
bool uw_ip_address_of(int fd, bool peer, struct uw_ip_address *a);

/* A socket of SOCK_DGRAM or SOCK_STREAM: non-blocking, closed on exec. -1: errno says why. */
int uw_ip_socket(bool ipv6, int type);

/* Open a socket and bind it to the address that a link's configuration has; one of SOCK_STREAM
 * listens.
 *   text        "10.0.0.2:4433", "[::1]:0"; ":4433" is any address of both families, or of IPv4
 *               where IPv6 is switched off; NULL is ":0"
 *   ipv4, ipv6  set to the families that it reaches
 * Returns the socket; UW_ERR_INVALID, UW_ERR_NOTFOUND or UW_ERR_IO, and err has a sentence. */
int uw_ip_open(const char *text, int type, bool *ipv4, bool *ipv6, struct uw_error *err);

/* A host's address, port 0; a name is asked of the system's resolver, which may take long.
 * Returns UW_OK or UW_ERR_NOTFOUND. */
int uw_ip_host_wait(const char *host, enum uw_ip_family family, struct uw_ip_address *a);

/* "host:port" for a message to go there, without waiting. An answer is given out once; the next
 * call looks the name up anew. One that nobody came for in half a minute is forgotten.
 * Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_AGAIN (being looked up, or too many others are),
 * UW_ERR_INVALID without a host or a port. */
int uw_ip_resolve(const char *address, enum uw_ip_family family, struct uw_ip_address *a);

/* For tests: what looks names up from now on, from any thread; NULL: the system's resolver. */
typedef int (*uw_ip_resolver_fn)(const char *host, enum uw_ip_family family,
                                  struct uw_ip_address *a);
void uw_ip_set_resolver(uw_ip_resolver_fn resolver);

#endif
