/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_guard.h - what stands between a stream link's messages and its socket: encryption
 *
 * The link gives each connection a session's memory and calls; the session reads and writes the
 * socket's bytes through the link. Nothing waits.
 *
 * Memory     the link's, guard->ops->session_bytes a connection      Context  the link's thread */
#ifndef UW_NET_STREAM_GUARD_H
#define UW_NET_STREAM_GUARD_H

#include "uwasa/link_tcp.h"

struct uw_stream_io {
    void *arg;
    /* Bytes from the socket. Returns how many, UW_ERR_AGAIN, UW_ERR_CLOSED. */
    int (*read)(void *arg, uint8_t *buf, uint32_t cap_bytes);
    /* Bytes for the socket; they are kept or sent. Returns UW_OK, UW_ERR_FULL. */
    int (*write)(void *arg, const uint8_t *buf, uint32_t bytes);
};

struct uw_stream_guard_ops {
    uint32_t record_bytes;          /* plain bytes in one write at most */
    uint32_t overhead_bytes;        /* added to each write at most */
    uint32_t handshake_bytes;       /* written before the first message at most */

    uint32_t (*session_bytes)(void);

    /* Begin a session in unspecified memory.
     *   cheap    of those who call: many do, so agree on nothing that takes long to
     *   address  of the peer, for messages; copied
     * Returns UW_OK, UW_ERR_NOMEM. */
    int (*open)(struct uw_stream_guard *g, void *session, const struct uw_stream_io *io,
                bool client, bool cheap, const char *address);

    /* Go on with the handshake. Returns UW_OK (done), UW_ERR_AGAIN (bytes are awaited),
     * UW_ERR_DENIED (key or run), UW_ERR_CORRUPT (anything else); it has then failed. */
    int (*handshake)(struct uw_stream_guard *g, void *session);

    /* Take plain bytes. Returns how many, UW_ERR_AGAIN, UW_ERR_CLOSED, UW_ERR_CORRUPT. */
    int (*read)(struct uw_stream_guard *g, void *session, uint8_t *buf, uint32_t cap_bytes);

    /* Write up to record_bytes plain bytes. Returns UW_OK, UW_ERR_IO. */
    int (*write)(struct uw_stream_guard *g, void *session, const uint8_t *buf, uint32_t bytes);

    /* End a session. Safe on one that failed to open. */
    void (*close)(struct uw_stream_guard *g, void *session);
};

#endif
