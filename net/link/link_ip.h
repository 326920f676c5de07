/* SPDX-License-Identifier: Apache-2.0
 *
 * link_ip.h - host addresses and sockets for links over IP
 *
 * The system's resolver may block for half a minute. uw_ip_resolve therefore looks up names in
 * threads of their own and returns UW_ERR_AGAIN until the answer is there. These threads use a
 * small table of the process and nothing of the link: closing a link does not wait for them, and
 * they may still run when the process ends.
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

/* Convert a socket address. Returns false for a family that is neither IPv4 nor IPv6. */
bool uw_ip_address_from(const struct sockaddr_storage *s, struct uw_ip_address *a);

/* Fill a socket address of one family. Returns its bytes. */
uint32_t uw_ip_address_to(const struct uw_ip_address *a, bool ipv6, struct sockaddr_storage *s);

/* The address of a socket, or of its peer. Returns whether it has one. */
bool uw_ip_address_of(int fd, bool peer, struct uw_ip_address *a);

/* Open a non-blocking socket of SOCK_DGRAM or SOCK_STREAM, closed on exec. -1: see errno. */
int uw_ip_socket(bool ipv6, int type);

/* Open a socket and bind it to a configured address; SOCK_STREAM also listens.
 *   text        "10.0.0.2:4433", "[::1]:0"; ":4433" is any address of both families, or of IPv4
 *               where IPv6 is switched off; NULL is ":0"
 *   ipv4, ipv6  set to the families that it reaches
 * Returns the socket, or UW_ERR_INVALID, UW_ERR_NOTFOUND or UW_ERR_IO with a sentence in err. */
int uw_ip_open(const char *text, int type, bool *ipv4, bool *ipv6, struct uw_error *err);

/* Resolve a host, port 0. Blocks while the system looks up a name.
 * Returns UW_OK or UW_ERR_NOTFOUND. */
int uw_ip_host_wait(const char *host, enum uw_ip_family family, struct uw_ip_address *a);

/* Resolve a destination "host:port" without blocking. An answer is returned once; the next call
 * starts a new lookup. An answer that is not fetched expires after half a minute.
 * Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_AGAIN (lookup in progress, or too many), UW_ERR_INVALID
 * (no host or no port). */
int uw_ip_resolve(const char *address, enum uw_ip_family family, struct uw_ip_address *a);

/* For tests: replace the resolver; called from any thread. NULL: the system's. */
typedef int (*uw_ip_resolver_fn)(const char *host, enum uw_ip_family family,
                                  struct uw_ip_address *a);
void uw_ip_set_resolver(uw_ip_resolver_fn resolver);

#endif
