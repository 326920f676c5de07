/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_udp.h - the link over UDP sockets, IPv4 and IPv6 (POSIX)
 *
 * A station is a slot of the address table (uwasa/stations.h says who keeps one). Nobody is
 * authenticated here: put a secure channel on top.
 *
 * Units      bytes
 * With `together` set, messages to one station that follow each other wait until they are 64, or
 * the next step, recv or deinit, and go to the system in one call, as Linux allows; so do what
 * arrived together. One that the system refuses later is counted as dropped.
 *
 * Memory     caller supplies uw_link_udp_bytes(), borrowed until deinit
 * Blocking   never, except init while a host's name to bind is looked up. resolve gives addresses
 *            in numbers at once and UW_ERR_AGAIN for names, which a thread of their own looks up:
 *            8 at once in a process. deinit waits for none of them
 * Context    one thread per link
 */
#ifndef UWASA_LINK_UDP_H
#define UWASA_LINK_UDP_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"
#include "uwasa/stations.h"

UW_C_BEGIN

/* 1280, what every IPv6 path carries, less 40 (IPv6) and 8 (UDP). */
#define UW_LINK_UDP_MTU_DEFAULT 1232u
#define UW_LINK_UDP_MTU_MAX 65507u

struct uw_link_udp_config {
    const char *bind;           /* "10.0.0.2:4433", "[::1]:0", ":4433" (any address, IPv4 and
                                   IPv6); port 0: any free port; NULL: ":0". Not kept */
    void *memory;               /* aligned as from malloc or an arena */
    size_t memory_bytes;
    uint16_t stations_n;        /* slots of the address table; 0: 64 */
    uint32_t mtu_bytes;         /* 0: UW_LINK_UDP_MTU_DEFAULT; up to UW_LINK_UDP_MTU_MAX */
    uint32_t socket_buffer_bytes;   /* asked of the system, each way; 0: 1 MiB */
    bool together;              /* messages wait for each other; needs a caller that calls step
                                   after it has sent. Takes 128 KiB of memory */
};

/* Messages of one size on their way to or from the system (private). */
struct uw_link_udp_block {
    uint8_t *bytes;             /* out: NULL without `together` */
    uint32_t at, end;           /* of those that are left */
    uint32_t each_bytes;        /* the last may be shorter */
    uint8_t ip[16];             /* of the other end */
    uint32_t scope;
    uint16_t port;
};

struct uw_link_udp {
    struct uw_link link;
    struct uw_stations stations;
    struct uw_link_udp_block in, out;
    bool ipv6, ipv4;            /* families the socket reaches */
};

/* Bytes of memory for the table, one datagram and those that wait; SIZE_MAX when mtu or table are
 * not allowed. */
size_t uw_link_udp_bytes(const struct uw_link_udp_config *config);

/* Open and bind the socket. err (may be NULL) gets a sentence that names the address.
 *
 * Returns UW_OK, UW_ERR_INVALID (malformed address, mtu above the limit), UW_ERR_NOMEM,
 * UW_ERR_NOTFOUND (host unknown), UW_ERR_IO (port taken, address not of this machine). */
int uw_link_udp_init(struct uw_link_udp *l, const struct uw_link_udp_config *config,
                     struct uw_error *err);

/* Write the bound address, "127.0.0.1:40001"; with port 0 this tells the port that was found.
 *
 * Returns UW_OK, UW_ERR_CLOSED. */
int uw_link_udp_local(const struct uw_link_udp *l, char text[UW_LINK_ADDRESS_BYTES]);

UW_C_END
#endif
