/* SPDX-License-Identifier: Apache-2.0
 *
 * transfer.h - moving a snapshot in chunks: the pulling side drives, the serving side is stateless
 *
 * The receiver asks for chunks by bitmap (a *want*, up to 64 chunks), the server answers each set
 * bit with one data message that repeats the want's number. So the receiver measures the time from
 * question to answer exactly, also for what it asks again, and a chunk that never came is simply
 * asked for again: by a later answer that overtook it, or by a timer (RFC 6298, from 20 ms).
 *
 * Congestion. The number of chunks outstanding follows a model of the path, not single losses:
 * highest delivery rate of the last rounds times (twice the smallest round trip, plus slack for
 * jitter). It starts by doubling until the rate stops growing. A fuller queue lengthens the round
 * trip but not the rate, so the window stops following it. Loss by chance is parted from loss by a
 * full queue by a slow round now and then, and made up for: 20 or 30 % of it cost that share of the
 * throughput and no more.
 *
 * A device that knows how much it can receive at once never has more chunks outstanding: what comes
 * in one burst then fits, and nothing is lost that would have to be found out and asked for again.
 *
 * Where the link itself holds the sender back, as a radio does that takes one frame at a time,
 * there is no queue to fill and no rate to find: as much is asked for as there is room for, seldom,
 * so that questions take little of the air, and again shortly before the last answer.
 *
 * Versions. Chunks of one pull may come from different versions of the peer's snapshot. Each is a
 * consistent piece of one, and mixing is elementwise: every element is mixed with a value its peer
 * held during the pull, which is what averaging with a peer that keeps training means anyway. So
 * another peer may give the rest when the first one is gone, whatever it shows, or several a part
 * each at once: every element is still averaged with one member's.
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
    uint32_t due;                   /* when the server should send it, in 16 us: what is under way
                                       is due within hours of now */
    uint32_t chunk;
};

struct uw_want_log {
    uint64_t sent_us;
    uint64_t wanted;
    uint32_t base, spread_us;
    uint32_t ahead_us;              /* what others before it take on the link */
    uint32_t first;                 /* place of its first chunk in the order of questions */
    uint32_t delivered;             /* chunks that had arrived when it was sent */
    uint16_t seq;
    uint8_t chunks;
    bool used;
};

/* Small things first: boards reach them with short instructions. */
struct uw_pull {
    bool active, coded;
    bool pushed;                    /* all come without being asked for, the next one is `coming` */
    bool lossless;
    bool starting, fits;            /* fits: window_most is what can be received at once */
    uint16_t transfer, seq;
    uint16_t first_seq;             /* of this transfer: numbers go on, so that late answers show */

    /* tables */
    uint32_t *have, *out;           /* [words] chunk has arrived; is asked for */
    uint32_t *parts;                /* [2 words] bit 2 c + i: part i of chunk c has arrived and the
                                       other one not yet; NULL: chunks come whole */
    uint32_t words_max;
    struct uw_asked *asked;         /* ring in order of questions */
    uint32_t asked_max;             /* power of two */
    struct uw_want_log *log;        /* [log_max] of wants, by their numbers */
    uint32_t log_max;               /* power of two; as many as chunks that may be on their way */

    /* the pull */
    uint32_t size_n, chunk_n, chunks;
    uint32_t have_chunks, out_chunks;
    uint32_t head, tail;            /* of asked, free-running */
    uint32_t overtaken;             /* one past the latest place in the order that was answered */
    uint32_t origin;                /* chunk asked for first; the others follow, around the end */
    uint32_t base_word;             /* words before it, counted from the origin's, are complete */
    uint32_t frontier;              /* chunks from the origin on that were ever asked for */
    uint32_t reorder;               /* answers that may overtake one before it counts as lost */
    uint32_t coming;

    /* the path */
    uint32_t chunk_us;              /* what the link takes for a chunk, and holds the sender back;
                                       0: it does not */
    uint32_t srtt_us, rttvar_us;    /* srtt 0: not measured */
    uint32_t min_rtt_us;
    uint32_t backoff;               /* timeouts since the last answer */
    uint32_t phase;                 /* round within the cycle of fast and slow ones */
    uint32_t slow_from, slow_to;    /* places in the order asked in the slow round */
    uint32_t slow_n, slow_lost;     /* what became of them */
    uint32_t round, round_end;      /* round ends when answers pass this place in the order */
    uint32_t stale_rounds;

    uint32_t origin_n;              /* float the next pull begins at: where this one stopped */
    uint32_t split_n;               /* chunks that came in two parts */
    uint32_t again_n, twice_n;      /* chunks asked again; arrived again: of all pulls */
    uint64_t started_us, progress_us, want_us, timeout_us;
    uint64_t coming_us;             /* the last one came then */
    uint64_t min_rtt_at_us;
    float rate;                     /* chunks per microsecond, the best of the last rounds */
    float rates[UW_PULL_ROUNDS];
    float loss;                     /* by chance: share of what is asked that never comes */
    float lately;                   /* the same, whatever the cause */
    float plateau;                  /* rate to beat while starting */
    float window, window_most;      /* chunks */
};

/* What a question asks for: bit i, chunk base + i, of up to `most` chunks below `end`, the first
 * that are neither in `have` nor in `out`, as far as one question reaches. Returns how many. */
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

/* Take tables for vectors of up to size_n floats, in chunks of least_n or more, and window_chunks
 * chunks on their way.
 * Returns UW_OK or what uw_arena_take returns. */
int uw_pull_place(struct uw_pull *p, struct uw_arena *arena, uint32_t size_n, uint32_t least_n,
                  uint32_t window_chunks);

/* Take the table that coded pulls need beside those. Returns as uw_pull_place. */
int uw_pull_place_parts(struct uw_pull *p, struct uw_arena *arena);

/* What is known of the way to a peer from before; zeros: nothing. */
struct uw_path {
    uint32_t rtt_us;
    float floats_per_us;
    bool lossless;                  /* what was asked for comes, however long it takes */
    uint32_t most_chunks;           /* that this device can receive at once; 0: not known */
    uint32_t chunk_us;              /* as in struct uw_pull */
};

/* Begin to pull size_n floats in chunks of chunk_n. A known path saves most of the doubling. It
 * begins where the last pull stopped: else one that is always cut would never bring the end. */
void uw_pull_start(struct uw_pull *p, uint16_t transfer, uint32_t size_n, uint32_t chunk_n,
                   const struct uw_path *path, uint64_t now_us);

/* Right after uw_pull_start: pull no more than the n chunks from this one on, at least one, all of
 * them within the vector. The others count as here already. */
void uw_pull_only(struct uw_pull *p, uint32_t from, uint32_t n);

/* Right after uw_pull_start: ask for coded chunks. */
void uw_pull_coded(struct uw_pull *p);

/* Leave up to `most` chunks that are still missing, the last ones first, to another pull on the
 * same grid, which does not want them, or to nobody (NULL): they count as here.
 *   asked  also those on their way; when they come they count as late
 * Returns how many. */
uint32_t uw_pull_give(struct uw_pull *p, struct uw_pull *to, uint32_t most, bool asked,
                      uint64_t now_us);

/* The first chunks come without being asked for: they are not asked for soon. */
void uw_pull_expect(struct uw_pull *p, uint32_t chunks, uint64_t now_us);

/* All chunks come without being asked for, in order: only those that are overtaken are asked for,
 * and all that is missing when nothing comes for a timeout. */
void uw_pull_pushed(struct uw_pull *p, uint64_t now_us);

/* Go on from another peer with what is still missing; what has arrived stays. */
void uw_pull_move(struct uw_pull *p, uint16_t transfer, const struct uw_path *path,
                  uint64_t now_us);

/* End the pull, complete or not. Safe when none is under way. */
void uw_pull_stop(struct uw_pull *p);

/* The peer slept for so long in the middle: the path did not take that time. 0: this device did,
 * whose clock stood still. */
void uw_pull_paused(struct uw_pull *p, uint64_t paused_us);

/* Would this chunk, or of a coded pull a part of one, be new?
 * Returns UW_OK, UW_ERR_AGAIN (it is here already), UW_ERR_MISMATCH (another pull's),
 * UW_ERR_CORRUPT (not on the grid of chunks). */
int uw_pull_check(struct uw_pull *p, uint16_t transfer, uint32_t offset_n, uint32_t count_n);

/* What of it is new: all, but for a whole chunk of which a part is here. Returns how many floats
 * before that are not. */
uint32_t uw_pull_new(const struct uw_pull *p, uint32_t *offset_n, uint32_t *count_n);

/* A chunk or part of one that passed uw_pull_check and was kept, as uw_pull_new says. */
void uw_pull_took(struct uw_pull *p, uint16_t seq, uint32_t offset_n, uint32_t count_n,
                  uint64_t now_us);

/* A whole chunk that passed uw_pull_check and was kept. */
void uw_pull_arrived(struct uw_pull *p, uint16_t seq, uint32_t offset_n, uint64_t now_us);

/* The next question, if one is due.
 *   room_chunks  free slots for chunks; those on their way count against it
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
