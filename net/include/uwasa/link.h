/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link.h - the link contract: whole messages between stations, never waiting
 *
 * A link carries messages of up to mtu_bytes to a *station*: a number by which this link knows a
 * remote end. On a radio or in memory it is the node's own short address; on UDP it is a slot of
 * the link's address table, filled by resolve() or by the first datagram from an unknown sender.
 * Unless the link says reliable, messages may be lost, repeated, reordered and damaged.
 *
 * Life cycle: uw_link_<variant>_init, then resolve / send / recv / step in any order, deinit. Call
 * step once before the first send, so that the link knows the time.
 *
 * Units      bytes unless a name ends in _us (microseconds, monotonic)
 * Memory     an implementation embeds struct uw_link as its first member; caller-owned. A link that
 *            wraps another borrows it: the caller deinits the outer one first, then the inner one
 * Blocking   never; waiting happens in one place, in the app (see fd)
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

    /* Turn an address text ("10.0.0.9:4433", "[::1]:4433", "3") into a station, entering it in
     * the link's table if it is new. The same address gives the same station.
     * Returns UW_OK, UW_ERR_INVALID (malformed), UW_ERR_AGAIN (a host's name is being looked up:
     * ask again in a moment), UW_ERR_NOTFOUND (name does not resolve), UW_ERR_FULL (table full of
     * held stations). */
    int (*resolve)(struct uw_link *l, const char *address, uint16_t *station);

    /* Write a station's address text, NUL-terminated, at most UW_LINK_ADDRESS_BYTES.
     * Returns UW_OK or UW_ERR_NOTFOUND (no such station now). */
    int (*describe)(struct uw_link *l, uint16_t station, char text[UW_LINK_ADDRESS_BYTES]);

    /* Keep a station's slot (hold == true) or let it be recycled for another unknown sender. New
     * stations from recv are not held; those from resolve are. The number of a station that is
     * not held may name another sender after the next recv or resolve. Holds do not count: one
     * false undoes any number of true.
     * Returns whether it was held before, so that a wrapper can put back what it found; false for
     * a station that does not exist. */
    bool (*hold)(struct uw_link *l, uint16_t station, bool hold);

    /* Hand over one message. It is copied or sent before return.
     * Returns UW_OK (accepted, not: arrived), UW_ERR_AGAIN (queue full, try later),
     * UW_ERR_TOOBIG (above mtu_bytes), UW_ERR_NOTFOUND (no such station), UW_ERR_UNSUPPORTED
     * (broadcast on a link without it), UW_ERR_CLOSED, UW_ERR_IO. */
    int (*send)(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes);

    /* (optional where recv_view is there: NULL means that the wrapper copies from the view) Take
     * the next whole message, if one has arrived.
     *   from   set to the sender's station. Where that is `own`, it went to all and came back, or
     *          another end has the same number
     *   buf    written only on success; caller's, not kept
     * A message larger than cap_bytes is dropped and reported once; buf is then untouched.
     * Returns the size in bytes (may be 0), UW_ERR_AGAIN, UW_ERR_TOOBIG, UW_ERR_CLOSED,
     * UW_ERR_IO. */
    int (*recv)(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes);

    /* Do what is due at now_us (release delayed messages, drive handshakes, refill a rate). Time
     * never goes back. Returns the time at which it wants to be called again (recv may then
     * succeed as well), UINT64_MAX for "only when a message arrives". */
    uint64_t (*step)(struct uw_link *l, uint64_t now_us);

    /* Release handles, never memory, and zero the table pointer. Safe after a failed init and
     * twice: a struct without a table has nothing to release. */
    void (*deinit)(struct uw_link *l);

    /* (optional: NULL means there is nothing to forget) Drop what is agreed with a station, such
     * as a session's keys: it was silent for long and may have lost its half in a restart. The
     * next send agrees anew. */
    void (*forget)(struct uw_link *l, uint16_t station);

    /* (optional: NULL means that the wrapper joins the parts and calls send) Hand over one message
     * made of two parts, from where they lie. Returns what send returns. */
    int (*send_parts)(struct uw_link *l, uint16_t to, const void *head, uint32_t head_bytes,
                      const void *body, uint32_t body_bytes);

    /* (optional: NULL means that the wrapper calls recv) Take the next whole message without
     * copying it: *view is its first byte, in the link's own memory, the caller's to read and write
     * until its next call to the link. It is at a multiple of 4 where the link defers messages.
     * Returns the size in bytes (may be 0), UW_ERR_AGAIN, UW_ERR_TOOBIG (above mtu_bytes: dropped),
     * UW_ERR_CLOSED, UW_ERR_IO. */
    int (*recv_view)(struct uw_link *l, uint16_t *from, void **view);

    /* (optional, both or none) Leave the message that recv_view gave last where it is, and what
     * follows it from the same station as well: recv gives messages of other stations only, until
     * resume. What waits is bounded: the sender gets UW_ERR_AGAIN.
     * Returns UW_OK or UW_ERR_INVALID (nothing was viewed since the last call). */
    int (*defer)(struct uw_link *l);
    void (*resume)(struct uw_link *l);
};

struct uw_link_stats {
    uint64_t sent_n, sent_bytes;            /* messages the carrier took, payload bytes */
    uint64_t received_n, received_bytes;
    uint64_t dropped_n;                     /* lost here: no room, damaged, refused */
};

struct uw_link {
    const struct uw_link_ops *ops;
    uint32_t mtu_bytes;             /* largest message */
    uint64_t rate_bits_per_s;       /* of the carrier, where the link knows it: emulated links do,
                                       UDP, TCP and MPI do not. 0: not known, taken to be fast; see
                                       membership_rate in uwasa/node.h */
    uint32_t duty_ppm;              /* of the time that this end may send, in millionths, which
                                       rate_bits_per_s has in it already; 0: any */
    uint32_t burst_bytes;           /* of messages that may arrive at once, before recv is called,
                                       without loss; 0: not known, taken to be much */
    uint32_t burst_n;               /* and how many messages, however small; 0: the same. With 3
                                       or fewer some of a pull are lost, and asked for again */
    bool reliable;                  /* neither loses, repeats, reorders nor damages */
    bool secure;                    /* both ends are authenticated, contents are secret */
    bool shared;                    /* all who hear each other share rate_bits_per_s, and one
                                       message to all takes no more of it than one to one */
    bool frames;                    /* narrow, and each message is authenticated on its own and of
                                       one run: a node uses the short forms of net/wire/wire.h */
    bool numbered;                  /* all ends use the same numbers for stations, ... */
    uint16_t own;                   /* ... and this is this end's */
    int fd;                         /* becomes readable when recv may succeed, -1: none, poll; ask
                                       recv until UW_ERR_AGAIN before waiting for it */
    struct uw_link_stats stats;
};

/* Wrappers that check arguments and then call the table: UW_ERR_INVALID for a NULL link or pointer
 * (buf may be NULL when its size is 0), UW_ERR_CLOSED for a link without a table (zeroed, failed
 * init, after deinit), UW_ERR_TOOBIG for a message above mtu_bytes. step then wants nothing
 * (UINT64_MAX), hold says false, deinit does nothing. */
int uw_link_resolve(struct uw_link *l, const char *address, uint16_t *station);
int uw_link_describe(struct uw_link *l, uint16_t station, char text[UW_LINK_ADDRESS_BYTES]);
bool uw_link_hold(struct uw_link *l, uint16_t station, bool hold);
int uw_link_send(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes);
int uw_link_recv(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes);
uint64_t uw_link_step(struct uw_link *l, uint64_t now_us);
void uw_link_deinit(struct uw_link *l);
void uw_link_forget(struct uw_link *l, uint16_t station);

/* Send one message of two parts, over any link.
 *   scratch  [head_bytes + body_bytes] for links that cannot gather; NULL: the link can
 * Returns what send returns, UW_ERR_UNSUPPORTED (the link cannot, and scratch is NULL). */
int uw_link_send_parts(struct uw_link *l, uint16_t to, const void *head, uint32_t head_bytes,
                       const void *body, uint32_t body_bytes, void *scratch);

/* Take the next message where it lies, over any link.
 *   buf   [cap_bytes] for links without views, and for messages that are not at a multiple of 4 in
 *         the link; NULL where uw_link_views: the caller takes messages at any address
 *   view  set to the message: in the link until the next call to it, or buf
 * Returns what recv returns. */
int uw_link_recv_view(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes,
                      void **view);

/* Does it send messages of two parts from where they lie? */
bool uw_link_gathers(const struct uw_link *l);

/* Does this link show messages where they lie? */
bool uw_link_views(const struct uw_link *l);

/* Can messages be left in this link for later? */
bool uw_link_defers(const struct uw_link *l);

/* Leave the message viewed last, and those behind it from its station, until uw_link_resume.
 * Returns UW_OK, UW_ERR_INVALID (nothing was viewed), UW_ERR_UNSUPPORTED. */
int uw_link_defer(struct uw_link *l);
void uw_link_resume(struct uw_link *l);

UW_C_END
#endif
