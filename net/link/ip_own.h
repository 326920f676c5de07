/* SPDX-License-Identifier: Apache-2.0
 *
 * ip_own.h - the addresses of this machine's network interfaces */
#ifndef UW_NET_LINK_IP_OWN_H
#define UW_NET_LINK_IP_OWN_H

#include "ip_address.h"

/* Write the addresses at which a socket bound to `bound` can be reached, in the form of
 * uw_node_config.own_addresses: its own, or those of all interfaces that are up, of the families
 * that it reaches, IPv4 first. Leaves out loopback and link-local addresses, which say nothing to
 * another machine, and those that do not fit. Returns their bytes. */
uint32_t uw_ip_own(const struct uw_ip_address *bound, bool ipv4, bool ipv6, uint8_t *out,
                   uint32_t cap_bytes);

#endif
