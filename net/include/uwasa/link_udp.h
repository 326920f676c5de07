/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_udp.h - the link over UDP sockets, IPv4 and IPv6 (POSIX)
 *
 * A station is a slot of the address table (uwasa/stations.h). The link does not authenticate
 * peers: put a secure channel on top.
 *
 * Where this machine has several addresses and the link is bound to any, messages to a station
 * leave from the address that it asked (Linux); after 10 s of silence, or if this end has lost that
 * address, from the one that the system chooses.
 *
 * With `together` set, consecutive messages to one station wait until they are 64, or until the
 * next step, recv or deinit, and go to the system in one call where it can (Linux); receive does
 * likewise. A message that the system refuses later counts as dropped.
 *
 * Units      bytes
 * Memory     caller supplies uw_link_udp_bytes(), borrowed until deinit
 * Blocking   init, while it looks up the host name to bind; nothing else. resolve returns
 *            UW_ERR_AGAIN for names, which helper threads look up, 8 at once in a process; deinit
 *            does not wait for them
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
    uint32_t socket_buffer_bytes;   /* each way; 0: 1 MiB */
    bool together;              /* group messages; the caller must call step after sending. Takes
                                   128 KiB of memory */
};

/* Messages of one size for one system call (private). */
struct uw_link_udp_block {
    uint8_t *bytes;             /* out: NULL without `together` */
    uint32_t at, end;           /* bytes not consumed yet */
    uint32_t each_bytes;        /* of a message; the last may be shorter */
    uint8_t ip[16];             /* of the other end */
    uint32_t scope;
    uint16_t port;
    uint16_t station;           /* out */
};

struct uw_udp_own;

struct uw_link_udp {
    struct uw_link link;
    struct uw_stations stations;
    struct uw_link_udp_block in, out;
    struct uw_udp_own *own;     /* addresses of this end that the stations asked, one each, and of
                                   the sender of `in` */
    uint64_t now_us;
    bool ipv6, ipv4;            /* families the socket reaches */
};

/* Bytes of memory; SIZE_MAX when mtu or table are not allowed. */
size_t uw_link_udp_bytes(const struct uw_link_udp_config *config);

/* Open and bind the socket. err (may be NULL) gets a sentence that names the address.
 *
 * Returns UW_OK, UW_ERR_INVALID (malformed address, mtu above the limit), UW_ERR_NOMEM,
 * UW_ERR_NOTFOUND (host unknown), UW_ERR_IO (port taken, address not of this machine). */
int uw_link_udp_init(struct uw_link_udp *l, const struct uw_link_udp_config *config,
                     struct uw_error *err);

/* Write the bound address, "127.0.0.1:40001", with the port in use also where port 0 was given.
 *
 * Returns UW_OK, UW_ERR_CLOSED. */
int uw_link_udp_local(const struct uw_link_udp *l, char text[UW_LINK_ADDRESS_BYTES]);

/* Write the addresses at which this end can be reached, as uw_node_config.own_addresses wants them:
 * the bound one, or those of the network interfaces. Returns their bytes. */
uint32_t uw_link_udp_own(const struct uw_link_udp *l, uint8_t *out, uint32_t cap_bytes);

UW_C_END
#endif
