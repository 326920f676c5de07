/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_tcp.h - the link over TCP, for bulk on IP networks (Linux)
 *
 * A station is an address on which a peer listens. The first send connects to it and returns
 * UW_ERR_AGAIN until the connection is up. Both ends send over the same connection. Each end sends
 * a greeting with the port it listens on and its id. When two ends connect to each other at the
 * same time, the greetings decide which connection both keep, before the first message. Of two ends
 * at one IP address with the same port, behind a NAT, the second is a station by the port that it
 * dialed from.
 *
 * Reliable means that a connection loses, repeats, reorders and damages nothing. When it breaks
 * (the peer ends, or acknowledges nothing for silence_us), messages in flight are lost, broken_n
 * counts it, and the next send connects again. Recovery is the caller's task: an all-reduce round
 * ends by its deadline and is repeated.
 *
 * A path that loses large packets without a word lets a connection come up and then stalls it. When
 * nothing has been acknowledged for five retransmissions (6 s), but a new connection is up within a
 * second, that one has segments of 1220 bytes, the next 536; so have all later ones, and `narrow`
 * reports it once 64 KB got through (Linux).
 *
 * Unknown peers: a connection without a greeting after five seconds, or with a message above
 * mtu_bytes, is closed. One that has sent nothing stays with the system (Linux). When all slots are
 * in use, a new connection replaces one without a greeting: one that has sent nothing before one
 * that has, of the address with most such connections, at random. Stations that are not held are
 * recycled as on UDP, and their connection is closed. Peers are authenticated only with a guard;
 * unknown peers may then begin 20 handshakes a second, those of addresses with fewest connections
 * first, the others wait.
 *
 * Wire       greeting: "uwt1", port u16, 0 u16, id u64, serial u32, mtu u32; message: size u32,
 *            bytes, zeros up to a multiple of 4; little-endian
 * Units      bytes unless a name ends in _us
 * Memory     caller supplies uw_link_tcp_bytes(), borrowed until deinit: two messages a station,
 *            whose pages are touched when a connection uses them
 * Blocking   init, while it looks up the host name to bind; nothing else. Names as in
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

/* Encrypts connections and authenticates their ends, see uwasa/secure_stream.h. */
struct uw_stream_guard_ops;
struct uw_stream_guard {
    const struct uw_stream_guard_ops *ops;
};

struct uw_link_tcp_config {
    const char *bind;               /* as in struct uw_link_udp_config */
    void *memory;                   /* aligned as from malloc or an arena */
    size_t memory_bytes;
    uint16_t stations_n;            /* slots of the address table; 0: 32 */
    uint16_t strangers_n;           /* connections without a greeting yet, at most; 0: 8 */
    uint32_t mtu_bytes;             /* 0: UW_LINK_TCP_MTU_DEFAULT; up to UW_LINK_TCP_MTU_MAX */
    uint32_t socket_buffer_bytes;   /* each way; 0: the system's default */
    uint32_t silence_us;            /* longest time without an acknowledgement; 0: 10 s */
    struct uw_stream_guard *guard;  /* encrypts all connections, borrowed; NULL: plain text */
    /* (optional: NULL means that nothing is reported) Large segments do not reach the station at
     * this address: connections have smaller ones from now on. Called from inside step. */
    void (*narrow)(void *user, const char *address, uint32_t segment_bytes);
    void *user;
};

struct uw_link_tcp_station;
struct uw_link_tcp_conn;

struct uw_link_tcp {
    struct uw_link link;
    struct uw_stations addresses;
    struct uw_link_tcp_station *stations;   /* [addresses.slots_n] */
    struct uw_link_tcp_conn *conns;
    uint16_t *ready;                /* ring of connections that may be readable */
    uint8_t *rx, *tx, *sessions;
    uint32_t ready_at, ready_n;
    uint32_t rx_bytes, tx_bytes;    /* of a station, of a connection */
    uint32_t session_bytes;
    struct uw_stream_guard *guard;
    uint64_t begun_us;              /* token bucket of handshakes that unknown peers begin */
    uint32_t socket_buffer_bytes, silence_us;
    uint16_t conns_n;
    uint16_t viewed;                /* connection of the message viewed last */
    uint32_t viewed_bytes;
    int listener;
    uint16_t port;
    bool ipv6, ipv4, accepts;
    uint64_t now_us, accept_us;
    uint64_t draws_n;               /* random numbers drawn */
    uint64_t id;                    /* of this end, random */
    uint32_t greetings_n;
    uint32_t segment_bytes;         /* of new connections, at most; 0: the system's choice */
    uint32_t proven_bytes;          /* the same that has helped last */
    uint16_t tried;                 /* station of which it is not known yet whether it helps */
    uint64_t look_us;               /* next look for stalled connections */
    /* as in the configuration */
    void (*narrow)(void *user, const char *address, uint32_t segment_bytes);
    void *user;
    uint64_t broken_n;              /* connections that were up and that this end did not close */
};

/* Bytes of memory; SIZE_MAX when mtu or table are not allowed. */
size_t uw_link_tcp_bytes(const struct uw_link_tcp_config *config);

/* Open, bind and listen. err (may be NULL) gets a sentence that names the address.
 *
 * Returns UW_OK, UW_ERR_INVALID (malformed address, mtu above the limit), UW_ERR_NOMEM,
 * UW_ERR_NOTFOUND (host unknown), UW_ERR_IO (port taken, address not of this machine). */
int uw_link_tcp_init(struct uw_link_tcp *l, const struct uw_link_tcp_config *config,
                     struct uw_error *err);

/* Write the bound address, "127.0.0.1:40001", with the port in use also where port 0 was given.
 *
 * Returns UW_OK, UW_ERR_CLOSED. */
int uw_link_tcp_local(const struct uw_link_tcp *l, char text[UW_LINK_ADDRESS_BYTES]);

/* Write the addresses at which this end can be reached, as uw_node_config.own_addresses wants them:
 * the bound one, or those of the network interfaces. Returns their bytes. */
uint32_t uw_link_tcp_own(const struct uw_link_tcp *l, uint8_t *out, uint32_t cap_bytes);

/* Is the connection with this station up? */
bool uw_link_tcp_is_up(const struct uw_link_tcp *l, uint16_t station);

UW_C_END
#endif
