/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_guard.h - the interface of encryption between a stream link and its sockets
 *
 * The link allocates a session for each connection and calls it; the session reads and writes the
 * socket through the link. Non-blocking.
 *
 * Memory     the link's, guard->ops->session_bytes a connection      Context  the link's thread */
#ifndef UW_NET_STREAM_GUARD_H
#define UW_NET_STREAM_GUARD_H

#include "uwasa/link_tcp.h"

struct uw_stream_io {
    void *arg;
    /* Read from the socket. Returns the number of bytes, UW_ERR_AGAIN, UW_ERR_CLOSED. */
    int (*read)(void *arg, uint8_t *buf, uint32_t cap_bytes);
    /* Write to the socket; bytes are queued or sent. Returns UW_OK, UW_ERR_FULL. */
    int (*write)(void *arg, const uint8_t *buf, uint32_t bytes);
};

struct uw_stream_guard_ops {
    uint32_t record_bytes;          /* most plain bytes in one write */
    uint32_t overhead_bytes;        /* most bytes added to each write */
    uint32_t handshake_bytes;       /* most bytes written before the first message */

    uint32_t (*session_bytes)(void);

    /* Begin a session in unspecified memory.
     *   cheap    of a server under load: agree on a fast suite only
     *   address  of the peer, for events; copied
     * Returns UW_OK, UW_ERR_NOMEM. */
    int (*open)(struct uw_stream_guard *g, void *session, const struct uw_stream_io *io,
                bool client, bool cheap, const char *address);

    /* Continue the handshake. Returns UW_OK (done), UW_ERR_AGAIN (needs more bytes); it has failed
     * with UW_ERR_DENIED (key or run) or UW_ERR_CORRUPT (other errors). */
    int (*handshake)(struct uw_stream_guard *g, void *session);

    /* Read plain bytes. Returns their number, UW_ERR_AGAIN, UW_ERR_CLOSED, UW_ERR_CORRUPT. */
    int (*read)(struct uw_stream_guard *g, void *session, uint8_t *buf, uint32_t cap_bytes);

    /* Write up to record_bytes plain bytes. Returns UW_OK, UW_ERR_IO. */
    int (*write)(struct uw_stream_guard *g, void *session, const uint8_t *buf, uint32_t bytes);

    /* End a session. Safe on one that failed to open. */
    void (*close)(struct uw_stream_guard *g, void *session);
};

#endif
