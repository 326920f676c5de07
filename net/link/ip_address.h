/* SPDX-License-Identifier: Apache-2.0
 *
 * ip_address.h - IP addresses and ports as numbers and as text, without an operating system
 *
 * What every link over IP shares: POSIX, Zephyr and lwIP differ in how a socket takes an address,
 * not in how a person writes one.
 *
 * Memory     nothing is kept      Blocking   never      Context  any thread
 * Source     RFC 4291 section 2.2 (text of IPv6), RFC 5952 (the one way to write it)
 */
#ifndef UW_NET_IP_ADDRESS_H
#define UW_NET_IP_ADDRESS_H

#include "uwasa/link.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_IP_HOST_BYTES 256u          /* a host's name with its NUL */

/* An address in one form for both families: IPv4 is kept as ::ffff:a.b.c.d. */
struct uw_ip_address {
    uint8_t ip[16];
    uint32_t scope;
    uint16_t port;                      /* host order */
};

/* Set the IP to an IPv4 one, the scope to 0; the port stays. */
void uw_ip_address_set_ipv4(struct uw_ip_address *a, const uint8_t ip[4]);

bool uw_ip_address_is_ipv4(const struct uw_ip_address *a);

bool uw_ip_address_equal(const struct uw_ip_address *a, const struct uw_ip_address *b);

/* Write "10.0.0.9:4433" or "[fe80::1%2]:4433". Returns UW_OK. */
int uw_ip_address_print(const struct uw_ip_address *a, char text[UW_LINK_ADDRESS_BYTES]);

/* Cut "host:port" or "[v6]:port"; the host may be empty.
 * Returns UW_OK or UW_ERR_INVALID. */
int uw_ip_address_split(const char *text, char host[UW_IP_HOST_BYTES], uint16_t *port);

/* Read "10.0.0.9", without leading zeros. Returns whether it is that; ip may be written anyway. */
bool uw_ip_address_parse_ipv4(const char *text, uint8_t ip[4]);

/* Read a host written in numbers, "10.0.0.9", "fe80::1%2"; the port stays.
 * Returns UW_OK or UW_ERR_NOTFOUND (a name). */
int uw_ip_address_parse_host(const char *host, struct uw_ip_address *a);

/* Read "host:port" in numbers for a message to go there.
 * Returns UW_OK, UW_ERR_INVALID (malformed, no host, port 0), UW_ERR_NOTFOUND (a name). */
int uw_ip_address_parse(const char *text, struct uw_ip_address *a);

#endif
