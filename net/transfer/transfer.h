/* SPDX-License-Identifier: Apache-2.0
 *
 * transfer.h - pulling a snapshot in chunks: the receiver drives, the server is stateless
 *
 * The receiver asks for up to 64 chunks by bitmap (a *want*). The server answers each set bit with
 * one data message that repeats the want's number. So the receiver can measure the round trip
 * exactly, for repeated wants too. It asks again for a missing chunk when a later answer overtakes
 * it, or after a timeout (RFC 6298, from 20 ms).
 *
 * Congestion. The number of chunks outstanding follows a model of the path, not single losses: the
 * highest delivery rate of the last rounds times (twice the smallest round trip, plus slack for
 * jitter). It starts by doubling until the rate stops growing. A longer queue increases the round
 * trip but not the rate, so it does not increase the window. An occasional slow round distinguishes
 * random loss from loss by a full queue. Random loss is compensated: 20 or 30 % of it cost that
 * share of the throughput and no more.
 *
 * A device that knows how much it can receive at once never has more chunks outstanding, so that a
 * burst of answers fits, and none is lost.
 *
 * Some links block the sender, such as a radio that takes one frame at a time. Then there is no
 * queue to fill and no rate to find. The receiver asks for as much as it has room for, rarely, so
 * that wants take little of the air, and again shortly before the last answer.
 *
 * Versions. Chunks of one pull may come from different versions of the peer's snapshot. Each chunk
 * is a consistent piece of one version, and mixing is elementwise: every element is mixed with a
 * value that its peer held during the pull, as in any average with a peer that keeps training. So
 * another peer may send the rest when the first one is gone, at any version, or several peers may
 * send a share each: every element is still averaged with one member's.
 *
 * Units      _us microseconds, _n floats; chunks are numbered from 0
 * Memory     tables come from an arena; nothing else is kept
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_TRANSFER_H
#define UW_NET_TRANSFER_H

#include "base/bits.h"
#include "wire/message.h"

#include "uwasa/arena.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_CHUNK_MIN_N 8u           /* floats; a link that cannot carry that much is refused */
#define UW_PULL_WANTS 64u           /* wants remembered for their round trip, at most */
#define UW_PULL_ROUNDS 8u           /* round trips over which the best rate is remembered */

struct uw_asked {                   /* a chunk on its way */
    uint32_t due;                   /* when the server should send it, in units of 16 us; wraps
                                       after hours */
    uint32_t chunk;
};

struct uw_want_log {
    uint64_t sent_us;
    uint64_t wanted;
    uint32_t base, spread_us;
    uint32_t ahead_us;              /* link time of the chunks asked for before it */
    uint32_t first;                 /* place of its first chunk in the order of questions */
    uint32_t delivered;             /* chunks that had arrived when it was sent */
    uint16_t seq;
    uint8_t chunks;
    bool used;
};

/* Small fields first: boards access them with short instructions. */
struct uw_pull {
    bool active, coded;
    bool pushed;                    /* all chunks are sent unasked; the next one is `coming` */
    bool lossless;
    bool starting, fits;            /* fits: window_most is the most that can be received at once */
    uint16_t transfer, seq;
    uint16_t first_seq;             /* of this transfer: numbers continue, to detect late answers */

    /* tables */
    uint32_t *have, *out;           /* [words] chunk has arrived; is asked for */
    uint32_t *parts;                /* [2 words] bit 2 c + i: part i of chunk c has arrived and the
                                       other has not; NULL: chunks are never in parts */
    uint32_t words_max;
    struct uw_asked *asked;         /* ring in order of questions */
    uint32_t asked_max;             /* power of two */
    struct uw_want_log *log;        /* [log_max] of wants, by their numbers */
    uint32_t log_max;               /* power of two; the most chunks on their way */

    /* the pull */
    uint32_t size_n, chunk_n, chunks;
    uint32_t have_chunks, out_chunks;
    uint32_t head, tail;            /* of asked, free-running */
    uint32_t overtaken;             /* one past the last answered place in the order of questions */
    uint32_t origin;                /* chunk asked for first; the order wraps at the end */
    uint32_t base_word;             /* words before it, counted from the origin's, are complete */
    uint32_t frontier;              /* chunks from the origin on that were ever asked for */
    uint32_t reorder;               /* answers that may overtake one before it counts as lost */
    uint32_t coming;

    /* the path */
    uint32_t chunk_us;              /* time of a chunk on a link that blocks its sender; 0: it does
                                       not block */
    uint32_t srtt_us, rttvar_us;    /* srtt 0: not measured */
    uint32_t min_rtt_us;
    uint32_t backoff;               /* timeouts since the last answer */
    uint32_t phase;                 /* round within the cycle of fast and slow ones */
    uint32_t slow_from, slow_to;    /* places in the order asked in the slow round */
    uint32_t slow_n, slow_lost;     /* how many of them arrived or were lost; were lost */
    uint32_t round, round_end;      /* round ends when answers pass this place in the order */
    uint32_t stale_rounds;

    uint32_t origin_n;              /* float the next pull begins at: where this one stopped */
    uint32_t split_n;               /* chunks that came in two parts */
    uint32_t again_n, twice_n;      /* chunks asked again; arrived again: of all pulls */
    uint64_t started_us, progress_us, want_us, timeout_us;
    uint64_t coming_us;             /* arrival of the last pushed chunk */
    uint64_t min_rtt_at_us;
    float rate;                     /* chunks per microsecond, the best of the last rounds */
    float rates[UW_PULL_ROUNDS];
    float loss;                     /* share of chunks that are lost at random */
    float lately;                   /* recent share of lost chunks, by any cause */
    float plateau;                  /* rate to beat while starting */
    float window, window_most;      /* chunks */
};

/* Fill a want: bit i is chunk base + i. Takes the first chunks below `end`, up to `most`, that are
 * neither in `have` nor in `out`, within the 64 chunks of a want. Returns how many. */
UW_INLINE uint32_t uw_want_missing(const uint32_t *have, const uint32_t *out, uint32_t base,
                                   uint32_t end, uint32_t most, uint64_t *bits)
{
    uint32_t n = 0, wanted[2] = {0};
    for (uint32_t bit = 0; bit < 64u && base + bit < end && n < most; bit++) {
        if (!uw_set_has(have, base + bit) && !uw_set_has(out, base + bit)) {
            uw_set_add(wanted, bit);
            n++;
        }
    }
    *bits = wanted[0] | (uint64_t)wanted[1] << 32;
    return n;
}

/* Allocate tables for vectors of up to size_n floats in chunks of least_n or more, with up to
 * window_chunks chunks on their way.
 * Returns UW_OK or what uw_arena_take returns. */
int uw_pull_place(struct uw_pull *p, struct uw_arena *arena, uint32_t size_n, uint32_t least_n,
                  uint32_t window_chunks);

/* Allocate the additional table of coded pulls. Returns as uw_pull_place. */
int uw_pull_place_parts(struct uw_pull *p, struct uw_arena *arena);

/* The path to a peer as measured before; zeros: not known. */
struct uw_path {
    uint32_t rtt_us;
    float floats_per_us;
    bool lossless;                  /* every chunk asked for arrives, however late */
    uint32_t most_chunks;           /* most that this device can receive at once; 0: not known */
    uint32_t chunk_us;              /* as in struct uw_pull */
};

/* Begin to pull size_n floats in chunks of chunk_n. A known path saves most of the doubling. The
 * pull begins where the last one stopped: if all pulls are cut, every chunk still gets its turn. */
void uw_pull_start(struct uw_pull *p, uint16_t transfer, uint32_t size_n, uint32_t chunk_n,
                   const struct uw_path *path, uint64_t now_us);

/* Right after uw_pull_start: pull only n chunks, 1 or more, from this one on, all within the
 * vector. The others count as arrived. */
void uw_pull_only(struct uw_pull *p, uint32_t from, uint32_t n);

/* Right after uw_pull_start: ask for coded chunks. */
void uw_pull_coded(struct uw_pull *p);

/* Move up to `most` missing chunks, the last ones first, to another pull with chunks of the same
 * size that does not pull them; to NULL: drop them. They count as arrived here.
 *   asked  also move those on their way; if they arrive here they count as late
 * Returns how many. */
uint32_t uw_pull_give(struct uw_pull *p, struct uw_pull *to, uint32_t most, bool asked,
                      uint64_t now_us);

/* The first chunks are sent unasked: do not ask for them soon. */
void uw_pull_expect(struct uw_pull *p, uint32_t chunks, uint64_t now_us);

/* All chunks are sent unasked, in order: ask only for those that are overtaken, and for all missing
 * ones after a timeout. */
void uw_pull_pushed(struct uw_pull *p, uint64_t now_us);

/* Continue from another peer with the missing chunks. */
void uw_pull_move(struct uw_pull *p, uint16_t transfer, const struct uw_path *path,
                  uint64_t now_us);

/* End the pull, complete or not. Safe when none is under way. */
void uw_pull_stop(struct uw_pull *p);

/* The peer slept for paused_us during the pull: do not count that as time of the path. 0: this
 * device slept, and its clock stood still. */
void uw_pull_paused(struct uw_pull *p, uint64_t paused_us);

/* Is this chunk, or part of a chunk of a coded pull, new?
 * Returns UW_OK, UW_ERR_AGAIN (it has arrived before), UW_ERR_MISMATCH (of another pull),
 * UW_ERR_CORRUPT (no such chunk). */
int uw_pull_check(struct uw_pull *p, uint16_t transfer, uint32_t offset_n, uint32_t count_n);

/* Reduce a range to its new floats: all, except for a whole chunk of which a part has arrived.
 * Returns the number of floats before them. */
uint32_t uw_pull_new(const struct uw_pull *p, uint32_t *offset_n, uint32_t *count_n);

/* A chunk or part of one, which passed uw_pull_check, was stored as uw_pull_new says. */
void uw_pull_took(struct uw_pull *p, uint16_t seq, uint32_t offset_n, uint32_t count_n,
                  uint64_t now_us);

/* A whole chunk, which passed uw_pull_check, was stored. */
void uw_pull_arrived(struct uw_pull *p, uint16_t seq, uint32_t offset_n, uint64_t now_us);

/* Get the next want, if one is due.
 *   room_chunks  free slots for chunks, including those on their way
 * Returns true with *want filled: send it. */
bool uw_pull_next(struct uw_pull *p, uint32_t room_chunks, uint64_t now_us, struct uw_want *want);

/* When uw_pull_next may have something, if nothing arrives and room_chunks stays. */
uint64_t uw_pull_next_us(const struct uw_pull *p, uint32_t room_chunks, uint64_t now_us);

/* Has every chunk arrived? */
static inline bool uw_pull_complete(const struct uw_pull *p)
{
    return p->have_chunks == p->chunks;
}

#endif
