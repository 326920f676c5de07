/* SPDX-License-Identifier: Apache-2.0
 *
 * transfer_serve.h - the serving side of a transfer (transfer.h): a short queue of wants for each
 * station; chunks are sent in their order, stations in turn
 *
 * Units      _us microseconds, _n floats; chunks are numbered from 0
 * Memory     an arena's; nothing else is kept
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_TRANSFER_SERVE_H
#define UW_NET_TRANSFER_SERVE_H

#include "transfer.h"

#define UW_SERVE_WANTS 16u          /* most queued wants of a station, ... */
#define UW_SERVE_WANTS_FEW 8u       /* ... where memory is short */

struct uw_serve_wait {              /* a queued struct uw_want */
    uint64_t wanted;                /* chunks that are not sent yet */
    uint64_t start_us;
    uint32_t base, spread_us;
    uint16_t chunk_n, transfer, seq;
    uint8_t sent;                   /* chunks */
    uint8_t part;                   /* 1: the first of two parts of the next chunk was sent */
};

struct uw_serve_slot {
    struct uw_serve_wait *queue;    /* [wants_n] */
    uint8_t wants_n;
    bool used;
    uint8_t head, count;
    uint16_t station;
    uint64_t received_us;
    uint64_t blocked_until_us;      /* the link was full for this station */
};

struct uw_serve {
    struct uw_serve_slot *slots;
    uint32_t *busy;                 /* [words] bit i: slot i has wants */
    uint32_t slots_n, turn;
    uint32_t size_n;
    uint64_t stale_us;              /* wants that wait longer are dropped */
};

/* One chunk to send. */
struct uw_serve_item {
    uint32_t slot;
    uint16_t station, transfer, seq;
    uint32_t chunk, chunk_n, offset_n, count_n;
    bool coded;                     /* as UW_WANT_CODED says */
    uint8_t part;                   /* 1: only its second part is to be sent */
    bool more;                      /* set by the caller: it sent the first of two parts */
};

/* Allocate slots for stations_n stations with wants_n wants each, at most 255, for a vector of
 * size_n floats.
 * Returns UW_OK or what uw_arena_take returns. */
int uw_serve_place(struct uw_serve *s, struct uw_arena *arena, uint32_t stations_n,
                   uint32_t wants_n, uint32_t size_n);

/* Queue a station's want. A new transfer drops the station's older wants; a full queue drops the
 * oldest.
 * Returns UW_OK, UW_ERR_INVALID (outside the vector), UW_ERR_FULL (every slot is busy). */
int uw_serve_add(struct uw_serve *s, uint16_t station, const struct uw_want *want,
                 uint64_t now_us);

/* The next chunk that is due, stations in turn. It stays due until uw_serve_sent.
 * Returns false when nothing is due. */
bool uw_serve_next(struct uw_serve *s, uint64_t now_us, struct uw_serve_item *item);

/* The item was sent, or is lost: go on to its second part or the next item. */
void uw_serve_sent(struct uw_serve *s, const struct uw_serve_item *item);

/* The link is full for this station: try again at until_us, and serve other stations meanwhile.
 * Wants that wait longer than stale_us (two seconds) are dropped; their sender asks again. */
void uw_serve_blocked(struct uw_serve *s, const struct uw_serve_item *item, uint64_t until_us);

/* When the next chunk is due; UINT64_MAX: none is queued. */
uint64_t uw_serve_next_us(const struct uw_serve *s);

#endif
