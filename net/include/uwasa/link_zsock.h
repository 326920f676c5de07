/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_zsock.h - the link over UDP sockets of Zephyr, IPv4 or IPv6
 *
 * A station is a slot of the address table (uwasa/stations.h). The link does not authenticate
 * peers: put a secure channel on top. Addresses are numeric, because Zephyr's resolver blocks. The
 * link uses the IP version of the address that it binds.
 *
 * Units      bytes
 * Memory     caller supplies uw_link_zsock_bytes(), borrowed until deinit
 * Blocking   never          Context  one thread per link
 * Source     Zephyr 3.2 and later, CONFIG_NET_SOCKETS and CONFIG_NET_UDP
 */
#ifndef UWASA_LINK_ZSOCK_H
#define UWASA_LINK_ZSOCK_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"
#include "uwasa/stations.h"

UW_C_BEGIN

/* The IPv6 minimum of 1280, less 40 (IPv6) and 8 (UDP). Larger messages need IP fragments, which
 * Zephyr does not reassemble by default. */
#define UW_LINK_ZSOCK_MTU_DEFAULT 1232u
#define UW_LINK_ZSOCK_MTU_MAX 65507u

struct uw_link_zsock_config {
    const char *bind;           /* "192.0.2.1:4433", "[2001:db8::1]:4433", ":4433" (any address,
                                   IPv4 if the kernel has it, else IPv6), "[::]:4433"; port 0: any
                                   free port; NULL: ":0". Not kept */
    void *memory;               /* aligned as from an arena */
    size_t memory_bytes;
    uint16_t stations_n;        /* slots of the address table; 0: 64 */
    uint32_t mtu_bytes;         /* 0: UW_LINK_ZSOCK_MTU_DEFAULT; up to UW_LINK_ZSOCK_MTU_MAX */
    uint32_t burst_bytes;       /* size of the kernel's receive buffers, below
                                   CONFIG_NET_BUF_RX_COUNT of them: limits what peers send at once;
                                   0: unknown, assumed large */
    uint32_t burst_n;           /* the same, in messages, CONFIG_NET_PKT_RX_COUNT at most; 0:
                                   unknown */
};

struct uw_link_zsock {
    struct uw_link link;        /* link.fd is for zsock_poll */
    struct uw_stations stations;
    bool ipv6;
};

/* Bytes of memory; SIZE_MAX when mtu or table are not allowed. */
size_t uw_link_zsock_bytes(const struct uw_link_zsock_config *config);

/* Open and bind the socket. err (may be NULL) gets a sentence that names the address.
 *
 * Returns UW_OK, UW_ERR_INVALID (malformed address, mtu above the limit), UW_ERR_NOMEM,
 * UW_ERR_NOTFOUND (a name, not a number), UW_ERR_IO (port taken, address not of this device, no
 * socket left). */
int uw_link_zsock_init(struct uw_link_zsock *l, const struct uw_link_zsock_config *config,
                       struct uw_error *err);

/* Write the bound address, "192.0.2.1:4433", with the port in use also where port 0 was given.
 *
 * Returns UW_OK, UW_ERR_CLOSED. */
int uw_link_zsock_local(const struct uw_link_zsock *l, char text[UW_LINK_ADDRESS_BYTES]);

UW_C_END
#endif
