/* SPDX-License-Identifier: Apache-2.0
 *
 * link_tcp_conn.h - connections of the TCP link: set-up and end (link_tcp_conn.c), input and output
 * (link_tcp_io.c)
 *
 * A dialed connection belongs to its station from the start, an accepted one after its greeting,
 * which contains the peer's address. A station has one connection at most:
 *
 *   - if both ends dial at the same time, the connection of the end with the greater id stays;
 *   - an accepted connection older than the one that is up (same id, smaller serial) belongs to an
 *     abandoned dial and is closed; any other replaces it: the peer has lost the old one.
 *
 * Data is sent after the peer's greeting has arrived, and never on an abandoned connection. */
#ifndef UW_NET_LINK_TCP_CONN_H
#define UW_NET_LINK_TCP_CONN_H

#include "link_ip.h"
#include "station_table.h"
#include "stream_guard.h"
#include "uwasa/link_tcp.h"

#include <sys/uio.h>

#define UW_TCP_NONE UINT16_MAX
#define UW_TCP_GREETING_BYTES 24u
#define UW_TCP_PREFIX_BYTES 4u
#define UW_TCP_BEGIN_MAX 32u        /* burst of handshakes that unknown peers may begin ... */
#define UW_TCP_BEGIN_US 50000u      /* ... and the interval afterwards */

enum uw_tcp_state {
    UW_TCP_FREE,
    UW_TCP_DIALING,                 /* connect in progress */
    UW_TCP_SECURING,                /* the guard's handshake in progress */
    UW_TCP_GREETING,                /* waits for the peer's greeting */
    UW_TCP_UP,
    UW_TCP_ENDED                    /* closed; received messages can still be read */
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
    bool spoke;                     /* something has arrived ... */
    bool waits;                     /* ... and the handshake waits for its turn */
    bool begun;                     /* the handshake had its turn */
    bool drained;                   /* the socket is empty ... */
    bool ending;                    /* ... but has ended: read until end of file */
    uint16_t station;
    struct uw_link_tcp *link;
    uint32_t rx_at, rx_end;         /* received bytes in rx */
    uint32_t tx_at, tx_end;         /* unsent bytes in tx */
    uint8_t *rx, *tx;               /* the station's, its own */
    void *session;                  /* of the guard */
    uint64_t since_us;
    struct uw_ip_address from;      /* of an accepted connection */
    uint64_t peer_id;
    uint32_t peer_serial, peer_mtu;
    uint32_t greeting_n;
    uint8_t greeting[UW_TCP_GREETING_BYTES];
};

/* ---- link_tcp_conn.c ---- */

/* The station of an address; a new address gets a free or recycled slot.
 * Returns UW_OK or UW_ERR_FULL. */
int uw_tcp_enter(struct uw_link_tcp *l, const struct uw_ip_address *a, uint16_t *number);

/* Connect to a station without a connection, unless its back-off has not ended. */
void uw_tcp_dial(struct uw_link_tcp *l, uint16_t station);

/* End a connection; with `drain` received messages can still be read. */
void uw_tcp_close(struct uw_link_tcp *l, uint16_t conn, bool drain);

/* Send one message. Returns UW_OK or UW_ERR_AGAIN. */
int uw_tcp_send(struct uw_link_tcp *l, uint16_t conn, struct iovec *iov, int iov_n,
                uint32_t bytes);

/* Take the next message of any connection, without a copy. Returns its bytes or UW_ERR_AGAIN. */
int uw_tcp_next(struct uw_link_tcp *l, uint16_t *conn, uint8_t **at);

/* Queue a connection for uw_tcp_next. */
void uw_tcp_make_ready(struct uw_link_tcp *l, uint16_t conn);

/* End connections that time out, and begin handshakes whose turn has come. Returns the time of the
 * next call. */
uint64_t uw_tcp_expire(struct uw_link_tcp *l);

/* Make the system keep connections that have sent nothing to itself, for a while. */
void uw_tcp_defer_accept(const struct uw_link_tcp *l);

/* Start or stop accepting connections. */
void uw_tcp_set_accepts(struct uw_link_tcp *l, bool accepts);

/* ---- link_tcp_stall.c ---- */

/* Look for connections that stall, and dial anew with smaller segments. Returns the time of the
 * next call. */
uint64_t uw_tcp_look(struct uw_link_tcp *l);

/* Set the segment size of a new connection. */
void uw_tcp_limit_segment(const struct uw_link_tcp *l, int fd);

/* A dialed connection is up, or has failed. */
void uw_tcp_tried(struct uw_link_tcp *l, const struct uw_link_tcp_conn *c, bool connects);

/* ---- link_tcp_io.c: after UW_ERR_CLOSED the caller closes the connection ---- */

/* Open the guard's session, if there is a guard. Returns success. */
bool uw_tcp_secure(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, const char *address);

/* Read bytes through the guard. Returns their number, UW_ERR_AGAIN, or another code: the
 * connection has ended. */
int uw_tcp_read(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, uint8_t *buf,
                uint32_t cap_bytes);

/* Send the bytes in tx. Returns UW_OK (tx is empty), UW_ERR_AGAIN, UW_ERR_CLOSED. */
int uw_tcp_flush(struct uw_link_tcp_conn *c);

/* Send one message, after the bytes in tx. Returns UW_OK, UW_ERR_AGAIN, UW_ERR_CLOSED. */
int uw_tcp_write(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, struct iovec *iov, int iov_n,
                 uint32_t bytes);

/* Read until the first message of a connection is complete, and get it without a copy. Returns its
 * bytes, UW_ERR_AGAIN, UW_ERR_TOOBIG (above the mtu), or another code: the connection has ended. */
int uw_tcp_front(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, uint8_t **at);

#endif
