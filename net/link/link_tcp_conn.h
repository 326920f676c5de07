/* SPDX-License-Identifier: Apache-2.0
 *
 * link_tcp_conn.h - connections of the TCP link: how they begin, settle and end (link_tcp_conn.c),
 * and how they carry bytes (link_tcp_io.c)
 *
 * A connection that was dialed belongs to its station from the start; one that was accepted does
 * once its greeting says which address it comes from. A station has one at most:
 *
 *   - while mine is being dialed and the peer's comes in, the end with the greater id keeps its;
 *   - one older than that of the connection that is up (same id, smaller serial) belongs
 *     to a dial that was given up; any other replaces that connection: the peer has lost it.
 *
 * Data goes out once the peer's greeting is here, so nothing is sent on what is given up. */
#ifndef UW_NET_LINK_TCP_CONN_H
#define UW_NET_LINK_TCP_CONN_H

#include "link_ip.h"
#include "stations.h"
#include "stream_guard.h"
#include "uwasa/link_tcp.h"

#include <sys/uio.h>

#define UW_TCP_NONE UINT16_MAX
#define UW_TCP_GREETING_BYTES 24u
#define UW_TCP_PREFIX_BYTES 4u
#define UW_TCP_BEGIN_MAX 32u        /* handshakes that strangers may begin in one burst, */
#define UW_TCP_BEGIN_US 50000u      /* and then one each */

enum uw_tcp_state {
    UW_TCP_FREE,
    UW_TCP_DIALING,                 /* connect is under way */
    UW_TCP_SECURING,                /* the guard's handshake is under way */
    UW_TCP_GREETING,                /* the peer's greeting is awaited */
    UW_TCP_UP,
    UW_TCP_ENDED                    /* closed; what had arrived is still given out */
};

struct uw_link_tcp_station {        /* beside its address */
    uint64_t retry_us;              /* no dial before */
    uint16_t conn;
    uint8_t fails;
};

struct uw_link_tcp_conn {
    enum uw_tcp_state state;
    int fd;
    bool dialed, readable, deferred, queued;
    bool guarded;                   /* the session is open */
    bool drained;                   /* of the socket: nothing is left in it ... */
    bool ending;                    /* ... but its end: read on until it comes */
    uint16_t station;
    struct uw_link_tcp *link;
    uint32_t rx_at, rx_end;         /* what has arrived and was not given out, in rx */
    uint32_t tx_at, tx_end;         /* what the system did not take yet, in tx */
    uint8_t *rx, *tx;               /* the station's, its own */
    void *session;                  /* of the guard */
    uint64_t since_us;
    uint64_t peer_id;
    uint32_t peer_serial, peer_mtu;
    uint32_t greeting_n;
    uint8_t greeting[UW_TCP_GREETING_BYTES];
};

/* ---- link_tcp_conn.c ---- */

/* The station of an address: known, in a free slot, or in the one recycled.
 * Returns UW_OK or UW_ERR_FULL. */
int uw_tcp_enter(struct uw_link_tcp *l, const struct uw_ip_address *a, uint16_t *number);

/* Begin a connection to a station that has none, unless it failed lately. */
void uw_tcp_dial(struct uw_link_tcp *l, uint16_t station);

/* End a connection; with `drain` what has arrived is still given out. */
void uw_tcp_close(struct uw_link_tcp *l, uint16_t conn, bool drain);

/* Send one message. Returns UW_OK or UW_ERR_AGAIN. */
int uw_tcp_send(struct uw_link_tcp *l, uint16_t conn, struct iovec *iov, int iov_n,
                uint32_t bytes);

/* The next message of all connections, where it lies; it counts as given out. Returns its bytes or
 * UW_ERR_AGAIN. */
int uw_tcp_next(struct uw_link_tcp *l, uint16_t *conn, uint8_t **at);

/* Have a connection looked at for messages. */
void uw_tcp_make_ready(struct uw_link_tcp *l, uint16_t conn);

/* End what took too long to connect or greet. Returns when it wants to be called again. */
uint64_t uw_tcp_expire(struct uw_link_tcp *l);

/* Begin or cease to accept new connections. */
void uw_tcp_set_accepts(struct uw_link_tcp *l, bool accepts);

/* ---- link_tcp_io.c: with UW_ERR_CLOSED the connection has ended, which the caller acts on ---- */

/* Open the guard's session, if there is a guard. Returns false when that fails. */
bool uw_tcp_secure(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, const char *address);

/* Read bytes of the peer's, through the guard. Returns how many, UW_ERR_AGAIN, or another code: the
 * connection has ended. */
int uw_tcp_read(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, uint8_t *buf,
                uint32_t cap_bytes);

/* Write what waits in tx. Returns UW_OK (nothing waits any more), UW_ERR_AGAIN, UW_ERR_CLOSED. */
int uw_tcp_flush(struct uw_link_tcp_conn *c);

/* Write one message, after what waits. Returns UW_OK, UW_ERR_AGAIN, UW_ERR_CLOSED. */
int uw_tcp_write(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, struct iovec *iov, int iov_n,
                 uint32_t bytes);

/* The message at the front of a connection, where it lies, read as far as it has come. Returns its
 * bytes, UW_ERR_AGAIN, UW_ERR_TOOBIG (above the mtu), or another code: the connection has ended. */
int uw_tcp_front(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, uint8_t **at);

#endif
