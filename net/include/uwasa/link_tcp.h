/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_tcp.h - the link over TCP, for bulk on IP networks (Linux)
 *
 * A station is an address on which a peer listens. The first send connects to it and answers
 * UW_ERR_AGAIN until the connection is there; who is connected to may answer over the same
 * connection. Both ends greet with the port they listen on and a number of their own, so that two
 * that connect to each other at once keep one and the same connection, before anything is sent on
 * either.
 *
 * Reliable means: within a connection nothing is lost, repeated, reordered or damaged. When it
 * breaks (the peer ends, or acknowledges nothing for silence_us), what was on its way is lost, the
 * link counts it in broken_n, and the next send connects anew. Making good for what is lost is the
 * caller's business: with all-reduce the round ends by its deadline and is repeated.
 *
 * Strangers: a connection that does not greet within five seconds, or claims a message above
 * mtu_bytes, is closed; of those that have not greeted the one that has waited longest makes room.
 * Stations that are not held are recycled as on UDP, and their connection is closed. Nobody is
 * authenticated, unless a guard is set: then strangers may begin 20 handshakes a second.
 *
 * Wire       greeting: "uwt1", port u16, 0 u16, id u64, serial u32, mtu u32; message: size u32,
 *            bytes, zeros up to a multiple of 4; little-endian
 * Units      bytes unless a name ends in _us
 * Memory     caller supplies uw_link_tcp_bytes(), borrowed until deinit: two messages a station,
 *            whose pages are touched when a connection uses them
 * Blocking   never, except init while a host's name to bind is looked up; names as in
 *            uwasa/link_udp.h
 * Context    one thread per link
 */
#ifndef UWASA_LINK_TCP_H
#define UWASA_LINK_TCP_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"
#include "uwasa/stations.h"

UW_C_BEGIN

#define UW_LINK_TCP_MTU_DEFAULT (256u * 1024u + 64u)    /* 65536 floats and their head */
#define UW_LINK_TCP_MTU_MAX (64u * 1024u * 1024u)

/* What encrypts a connection and authenticates its ends, see uwasa/secure_stream.h. */
struct uw_stream_guard_ops;
struct uw_stream_guard {
    const struct uw_stream_guard_ops *ops;
};

struct uw_link_tcp_config {
    const char *bind;               /* as in struct uw_link_udp_config */
    void *memory;                   /* aligned as from malloc or an arena */
    size_t memory_bytes;
    uint16_t stations_n;            /* slots of the address table; 0: 32 */
    uint16_t strangers_n;           /* connections that have not greeted, at once; 0: 8 */
    uint32_t mtu_bytes;             /* 0: UW_LINK_TCP_MTU_DEFAULT; up to UW_LINK_TCP_MTU_MAX */
    uint32_t socket_buffer_bytes;   /* asked of the system, each way; 0: the system sees to it */
    uint32_t silence_us;            /* a peer may leave what was sent unacknowledged; 0: 10 s */
    struct uw_stream_guard *guard;  /* encrypts all connections, borrowed; NULL: in the clear */
};

struct uw_link_tcp_station;
struct uw_link_tcp_conn;

struct uw_link_tcp {
    struct uw_link link;
    struct uw_stations addresses;
    struct uw_link_tcp_station *stations;   /* [addresses.slots_n] */
    struct uw_link_tcp_conn *conns;
    uint16_t *ready;                /* ring of connections that may have something to read */
    uint8_t *rx, *tx, *sessions;
    uint32_t ready_at, ready_n;
    uint32_t rx_bytes, tx_bytes;    /* of a station, of a connection */
    uint32_t session_bytes;
    struct uw_stream_guard *guard;
    uint64_t begun_us;              /* guarded: a bucket of handshakes that strangers begin */
    uint32_t socket_buffer_bytes, silence_us;
    uint16_t conns_n;
    uint16_t viewed;                /* connection of the message viewed last */
    uint32_t viewed_bytes;
    int listener;
    uint16_t port;
    bool ipv6, ipv4, accepts;
    uint64_t now_us, accept_us;
    uint64_t id;                    /* of this end, drawn at init */
    uint32_t greetings_n;
    uint64_t broken_n;              /* connections that were up and ended, not by this end */
};

/* Bytes of memory; SIZE_MAX when mtu or table are not allowed. */
size_t uw_link_tcp_bytes(const struct uw_link_tcp_config *config);

/* Open, bind and listen. err (may be NULL) gets a sentence that names the address.
 *
 * Returns UW_OK, UW_ERR_INVALID (malformed address, mtu above the limit), UW_ERR_NOMEM,
 * UW_ERR_NOTFOUND (host unknown), UW_ERR_IO (port taken, address not of this machine). */
int uw_link_tcp_init(struct uw_link_tcp *l, const struct uw_link_tcp_config *config,
                     struct uw_error *err);

/* Write the bound address, "127.0.0.1:40001"; with port 0 this tells the port that was found.
 *
 * Returns UW_OK, UW_ERR_CLOSED. */
int uw_link_tcp_local(const struct uw_link_tcp *l, char text[UW_LINK_ADDRESS_BYTES]);

/* Is there a connection with this station over which messages go at once? */
bool uw_link_tcp_is_up(const struct uw_link_tcp *l, uint16_t station);

UW_C_END
#endif
