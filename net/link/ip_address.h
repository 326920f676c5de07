/* SPDX-License-Identifier: Apache-2.0
 *
 * ip_address.h - parse and print IP addresses and ports, without an operating system
 *
 * Shared by the links over POSIX, Zephyr and lwIP.
 *
 * Memory     nothing is kept      Blocking   never      Context  any thread
 * Source     RFC 4291 section 2.2 (text of IPv6), RFC 5952 (its canonical form)
 */
#ifndef UW_NET_IP_ADDRESS_H
#define UW_NET_IP_ADDRESS_H

#include "uwasa/link.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_IP_HOST_BYTES 256u          /* a host name with its NUL */

/* An address of either family: IPv4 is stored as ::ffff:a.b.c.d. */
struct uw_ip_address {
    uint8_t ip[16];
    uint32_t scope;
    uint16_t port;                      /* host order */
};

/* Set the IP to an IPv4 address and the scope to 0; the port is unchanged. */
void uw_ip_address_set_ipv4(struct uw_ip_address *a, const uint8_t ip[4]);

bool uw_ip_address_is_ipv4(const struct uw_ip_address *a);

/* 0.0.0.0 or ::, what a socket has that is bound to any address. */
bool uw_ip_address_is_any(const struct uw_ip_address *a);

bool uw_ip_address_equal(const struct uw_ip_address *a, const struct uw_ip_address *b);

/* Write "10.0.0.9:4433" or "[fe80::1%2]:4433". Returns UW_OK. */
int uw_ip_address_print(const struct uw_ip_address *a, char text[UW_LINK_ADDRESS_BYTES]);

/* Split "host:port" or "[v6]:port"; the host may be empty.
 * Returns UW_OK or UW_ERR_INVALID. */
int uw_ip_address_split(const char *text, char host[UW_IP_HOST_BYTES], uint16_t *port);

/* Parse "10.0.0.9", without leading zeros. Returns success; ip may be written on failure. */
bool uw_ip_address_parse_ipv4(const char *text, uint8_t ip[4]);

/* Parse a numeric host, "10.0.0.9", "fe80::1%2"; the port is unchanged.
 * Returns UW_OK or UW_ERR_NOTFOUND (a name). */
int uw_ip_address_parse_host(const char *host, struct uw_ip_address *a);

/* Parse a numeric destination "host:port".
 * Returns UW_OK, UW_ERR_INVALID (malformed, no host, port 0), UW_ERR_NOTFOUND (a name). */
int uw_ip_address_parse(const char *text, struct uw_ip_address *a);

#endif
