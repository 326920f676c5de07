/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link.h - the link interface: whole messages between stations, non-blocking
 *
 * A link carries messages of up to mtu_bytes to a *station*, the number by which this link knows a
 * remote end. On a radio or in memory, the station is the peer's own short address. On UDP, it is a
 * slot of the link's address table, filled by resolve() or by the first datagram from an unknown
 * sender. Unless the link is reliable, messages may be lost, repeated, reordered and damaged.
 *
 * Life cycle: uw_link_<variant>_init, then resolve / send / recv / step in any order, then deinit.
 * Call step once before the first send: step sets the link's clock.
 *
 * Units      bytes unless a name ends in _us (microseconds, monotonic)
 * Memory     an implementation embeds struct uw_link as its first member; caller-owned. A link that
 *            wraps another borrows it: deinit the outer link first, then the inner one
 * Blocking   never; the program waits, in one place (see fd)
 * Context    one thread per link
 */
#ifndef UWASA_LINK_H
#define UWASA_LINK_H

#include "uwasa/cplusplus.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_LINK_STATION_NONE 0xffffu
#define UW_LINK_STATION_BROADCAST 0xfffeu
#define UW_LINK_ADDRESS_BYTES 64u   /* text of an address with its NUL */

struct uw_link;

struct uw_link_ops {
    const char *name;

    /* Resolve an address text ("10.0.0.9:4433", "[::1]:4433", "3") to a station; a new address is
     * added to the link's table. The same address gives the same station.
     * Returns UW_OK, UW_ERR_INVALID (malformed), UW_ERR_AGAIN (host name lookup in progress: call
     * again later), UW_ERR_NOTFOUND (name does not resolve), UW_ERR_FULL (table full of held
     * stations). */
    int (*resolve)(struct uw_link *l, const char *address, uint16_t *station);

    /* Write a station's address text, NUL-terminated, at most UW_LINK_ADDRESS_BYTES.
     * Returns UW_OK or UW_ERR_NOTFOUND (the station does not exist). */
    int (*describe)(struct uw_link *l, uint16_t station, char text[UW_LINK_ADDRESS_BYTES]);

    /* Hold a station's slot (hold == true) or release it. Stations from resolve start held, those
     * from recv do not. The slot of a station that is not held may be reused for another sender by
     * the next recv or resolve. Holds are not counted: one release undoes any number of holds.
     * Returns whether the station was held before, so that a wrapper can restore it; false for a
     * station that does not exist. */
    bool (*hold)(struct uw_link *l, uint16_t station, bool hold);

    /* Send one message. It is copied or sent before return.
     * Returns UW_OK (accepted, delivery not confirmed), UW_ERR_AGAIN (queue full, try later),
     * UW_ERR_TOOBIG (above mtu_bytes), UW_ERR_NOTFOUND (no such station), UW_ERR_UNSUPPORTED
     * (broadcast on a link without it), UW_ERR_CLOSED, UW_ERR_IO. */
    int (*send)(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes);

    /* (may be NULL where recv_view is set: the wrapper then copies from the view) Receive the next
     * whole message, if one has arrived.
     *   from   set to the sender's station. `own` means an echo of a broadcast of this end, or
     *          another end with the same number
     *   buf    written only on success; not kept
     * A message larger than cap_bytes is dropped and reported once; buf is then untouched.
     * Returns the size in bytes (may be 0), UW_ERR_AGAIN, UW_ERR_TOOBIG, UW_ERR_CLOSED,
     * UW_ERR_IO. */
    int (*recv)(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes);

    /* Do what is due at now_us: release delayed messages, continue handshakes, refill a token
     * bucket. Time never goes back. Returns the time of the next call (recv may then succeed, too),
     * or UINT64_MAX for "only when a message arrives". */
    uint64_t (*step)(struct uw_link *l, uint64_t now_us);

    /* Release handles, never memory, and zero the table pointer. Safe after a failed init and
     * twice. */
    void (*deinit)(struct uw_link *l);

    /* (optional: NULL means that there is no session) Drop the session with a station, such as its
     * keys, after a long silence: the peer may have restarted without them. The next send starts a
     * new session. */
    void (*forget)(struct uw_link *l, uint16_t station);

    /* (optional: NULL means that the wrapper joins the parts and calls send) Send one message of
     * two parts without joining them. Returns what send returns. */
    int (*send_parts)(struct uw_link *l, uint16_t to, const void *head, uint32_t head_bytes,
                      const void *body, uint32_t body_bytes);

    /* (optional: NULL means that the wrapper calls recv) Receive the next whole message without a
     * copy. *view points to its first byte in the link's memory, which the caller may read and
     * write until its next call to the link. The view is aligned to 4 where the link can defer.
     * Returns the size in bytes (may be 0), UW_ERR_AGAIN, UW_ERR_TOOBIG (above mtu_bytes: dropped),
     * UW_ERR_CLOSED, UW_ERR_IO. */
    int (*recv_view)(struct uw_link *l, uint16_t *from, void **view);

    /* (optional, both or none) Keep the message of the last recv_view, and those behind it from the
     * same station, in the link: until resume, recv returns messages of other stations only. The
     * queue is bounded: when it is full, the sender gets UW_ERR_AGAIN.
     * Returns UW_OK or UW_ERR_INVALID (no view since the last call). */
    int (*defer)(struct uw_link *l);
    void (*resume)(struct uw_link *l);
};

struct uw_link_stats {
    uint64_t sent_n, sent_bytes;            /* messages that the carrier accepted, their payload */
    uint64_t received_n, received_bytes;
    uint64_t dropped_n;                     /* received and lost at this end: no room,
                                               damaged, refused */
};

struct uw_link {
    const struct uw_link_ops *ops;
    uint32_t mtu_bytes;             /* largest message; may change, see config.paths in
                                       uwasa/secure.h */
    uint64_t rate_bits_per_s;       /* data rate of the carrier. Emulated links set it; UDP, TCP and
                                       MPI do not. 0: unknown, assumed fast; see membership_rate in
                                       uwasa/node.h */
    uint32_t duty_ppm;              /* duty cycle of this end, in millionths; rate_bits_per_s
                                       already includes it. 0: unlimited */
    uint32_t burst_bytes;           /* bytes of messages that may arrive between two calls of recv
                                       without loss; 0: unknown, assumed large */
    uint32_t burst_n;               /* the same, in messages of any size; 0: unknown. At 3 or fewer,
                                       a pull loses chunks and requests them again */
    bool reliable;                  /* no loss, repetition, reordering or damage */
    bool secure;                    /* both ends are authenticated, contents are encrypted */
    bool shared;                    /* all stations in range share rate_bits_per_s; a broadcast
                                       costs as much as a message to one */
    bool frames;                    /* small messages, each authenticated on its own and of one
                                       run: a node uses the short forms of net/wire/wire.h */
    bool numbered;                  /* all ends use the same station numbers ... */
    uint16_t own;                   /* ... and this is the number of this end */
    int fd;                         /* becomes readable when recv may succeed; -1: none, poll.
                                       Call recv until UW_ERR_AGAIN before waiting for fd */
    struct uw_link_stats stats;
};

/* Wrappers that check arguments and then call the table. They return UW_ERR_INVALID for a NULL link
 * or pointer (buf may be NULL when its size is 0), UW_ERR_CLOSED for a link without a table
 * (zeroed, failed init, after deinit), UW_ERR_TOOBIG for a message above mtu_bytes. Without a
 * table, step returns UINT64_MAX, hold returns false, and deinit does nothing. */
int uw_link_resolve(struct uw_link *l, const char *address, uint16_t *station);
int uw_link_describe(struct uw_link *l, uint16_t station, char text[UW_LINK_ADDRESS_BYTES]);
bool uw_link_hold(struct uw_link *l, uint16_t station, bool hold);
int uw_link_send(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes);
int uw_link_recv(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes);
uint64_t uw_link_step(struct uw_link *l, uint64_t now_us);
void uw_link_deinit(struct uw_link *l);
void uw_link_forget(struct uw_link *l, uint16_t station);

/* Turn an address that a peer tells into one for this end: the scope of a link-local IPv6 address
 * ("[fe80::1%2]:4433") is the number of an interface of the peer. It becomes that of the interface
 * on which this end hears the peer, where the peer's address is link-local, too. */
void uw_link_localize(struct uw_link *l, uint16_t peer, char address[UW_LINK_ADDRESS_BYTES]);

/* Send one message of two parts, over any link.
 *   scratch  [head_bytes + body_bytes] for links that cannot gather; may be NULL for those that do
 * Returns what send returns, UW_ERR_UNSUPPORTED (the link cannot gather, and scratch is NULL). */
int uw_link_send_parts(struct uw_link *l, uint16_t to, const void *head, uint32_t head_bytes,
                       const void *body, uint32_t body_bytes, void *scratch);

/* Receive the next message without a copy where the link can, over any link.
 *   buf   [cap_bytes] for links without views and for views that are not aligned to 4. NULL is
 *         allowed where uw_link_views: the caller then accepts any alignment
 *   view  set to the message, in the link's memory until the next call to the link, or in buf
 * Returns what recv returns. */
int uw_link_recv_view(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes,
                      void **view);

/* Does the link implement send_parts? */
bool uw_link_gathers(const struct uw_link *l);

/* Does the link implement recv_view? */
bool uw_link_views(const struct uw_link *l);

/* Does the link implement defer and resume? */
bool uw_link_defers(const struct uw_link *l);

/* Defer the message viewed last, and those behind it from its station, until uw_link_resume.
 * Returns UW_OK, UW_ERR_INVALID (nothing was viewed), UW_ERR_UNSUPPORTED. */
int uw_link_defer(struct uw_link *l);
void uw_link_resume(struct uw_link *l);

UW_C_END
#endif
