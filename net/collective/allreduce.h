/* SPDX-License-Identifier: Apache-2.0
 *
 * allreduce.h - one rank of an all-reduce, as a state machine on a clock that is handed in
 *
 * The steps are those of uwasa/allreduce_steps.h. A rank that reaches a step sends its message
 * unasked, at the rate measured for the network or for the path to that rank (allreduce_serve.c).
 * While neither is known, or loss is high, it sends the first chunks only. The receiver asks for
 * the rest and for lost chunks, as a pull does (transfer.h). A rank that is asked too early answers
 * WAIT. So no single message is essential, and a link without loss pays nothing for repairs.
 *
 *     DATA   floats of a step's message         GOT    all of a message of several chunks is here
 *     WANT   asks for chunks by bitmap          DONE   all of the round is here
 *     WAIT   not there yet
 *
 * A rank without room for the data of an unasked message answers WAIT, and WANT when it has room.
 * WANT as a reply means: send everything from the first chunk on or, while chunks are still on
 * their way, from where the message was stopped. Chunks dropped in between are asked for.
 *
 * A message may be asked for again until its receiver sends DONE. Windows of the vector that were
 * sent stay unchanged until then, because later values of them depend on that very message. Where a
 * step sends and receives the same window (doubling, sweep), arriving data is gathered in scratch.
 * Then it is swapped with the data sent, which stays in scratch until GOT. Data that arrives before
 * that, or before its step, is kept while there is room. A small message is copied when it is sent:
 * it blocks nothing, and the next round may begin at once.
 *
 * Where every rank's link is reliable and keeps the order, a round may be streamed
 * (allreduce_stream.c): only DATA with the seq UW_PART_STREAMED is sent, and a rank takes the data
 * of its present step. Early data is kept or, by an engine without room for it, left in the link
 * (uw_link_defer). When a connection breaks in a round, parts are missing: the round fails, or
 * the caller's deadline ends it.
 *
 *     IDLE --begin--> RUNNING --last step--> DONE --begin--> RUNNING
 *      ^                 |  +--missing--> FAILED    |
 *      +------ stop -----+------------------+-------+
 *
 * Units      _n floats, _us microseconds
 * Memory     tables from an arena; the vector is the caller's, changed in place
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_ALLREDUCE_H
#define UW_NET_ALLREDUCE_H

#include "part_queue.h"
#include "transfer/transfer.h"

#include "uwasa/arena.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_ALLREDUCE_PUSH_CHUNKS 16u
#define UW_ALLREDUCE_PART_N (62u * 256u)
#define UW_ALLREDUCE_NONE UINT32_MAX
#define UW_ALLREDUCE_OUT_MAX 32u    /* questions that wait for their answer */
#define UW_ALLREDUCE_EARLY_MAX 32u  /* chunks kept that came before their step */

enum uw_allreduce_state {
    UW_ALLREDUCE_IDLE,
    UW_ALLREDUCE_RUNNING,
    UW_ALLREDUCE_FAILED,            /* streamed: something is missing, the round cannot end */
    UW_ALLREDUCE_DONE
};

struct uw_allreduce_config {
    uint32_t size_n;                /* largest vector */
    uint32_t scratch_n;             /* largest message of doubling or sweep, 0: size_n */
    uint32_t small_n;               /* messages up to this are copied, at most chunk_n; 0: chunk_n
                                       up to 2048 */
    uint32_t ranks_max;             /* 2 or more */
    uint32_t chunk_n;               /* floats of a data message at most, UW_CHUNK_MIN_N or more */
    uint32_t window_chunks;         /* chunks on their way to this rank at most */
    bool lossless;                  /* links lose nothing; only a rank without a place drops it */
    bool streams_only;              /* every round is streamed, and what comes early is left to the
                                       caller: then no memory is taken, and scratch_n, small_n and
                                       window_chunks are idle */
    /* As struct uw_part_queue's. */
    int (*send)(void *arg, uint32_t rank, const struct uw_part *part);
    void *arg;
};

struct uw_allreduce_round {
    uint32_t group, round;          /* round grows with every round of the group */
    enum uw_allreduce_kind kind;
    bool average;                   /* the sum divided by the ranks; a sweep does so anyway */
    uint32_t ranks, rank;
    uint32_t size_n;
    uint32_t segment_n;             /* above 0: streamed, and larger vectors are worked in pieces of
                                       so many floats, the same on every rank */
    float *x;                       /* [size_n] */
    /* Sweep: the share of the floats of a rank for x [n], at `at`, that is mixed, from 0 to 1;
     * NULL: all. The arg is the config's. */
    float (*judge)(void *arg, uint32_t rank, uint32_t at, const float *floats, const float *x,
                   uint32_t n);
    uint64_t rtt_us;                /* about, between two ranks, also under load; 0: not known */
    uint64_t ahead_us;              /* the others begin so much later: until then nothing is pushed
                                       at a rate of ways */
    float floats_per_us;            /* about, that a rank can send; 0: not known, see ways */
    const struct uw_allreduce_way *ways;    /* [ranks] read by begin; NULL: as the group's last
                                       round left them */
    uint32_t chunk_n;               /* the same for all ranks, UW_CHUNK_MIN_N or more; 0: as
                                       configured, which is the most */
};

/* Chunks of a message that are to be sent. */
struct uw_allreduce_out {
    uint32_t rank, round;
    struct uw_want want;
    uint64_t start_us;
    uint32_t total, sent;
    uint32_t chunks;                /* of a message pushed as a whole; 0: answers a WANT */
    uint32_t ahead;                 /* pushed: chunks that may be sent ahead of the pace, ... */
    float floats_per_us;            /* ... which is this */
    bool paused;                    /* the receiver has no room yet */
};

/* Last round in which data of a step was dropped because it came too early; whole: the message was
 * pushed as a whole, and its chunks from next on have not arrived yet. */
struct uw_allreduce_dropped {
    uint32_t round : 31, whole : 1;
    uint32_t next;
};

/* The measured arrival of the current step's message. */
struct uw_allreduce_meter {
    uint64_t first_us, from_us, last_us;    /* first chunk, current span, last chunk */
    uint32_t span_n, all_n;         /* floats that came after from_us; after first_us */
    uint32_t asked;                 /* chunks that were asked for */
    float rate;                     /* of the fastest span */
    bool whole;                     /* the message is pushed as a whole */
    bool stopped;                   /* its sender was paused, for lack of room here */
};

/* Copies of the small messages that were sent in a round. */
struct uw_allreduce_kept {
    uint32_t round, steps_n, used_n;
    float *x;                       /* [store_n] */
    struct {
        uint32_t at, n, to;         /* n 0: not kept */
    } *message;                     /* [steps_max] */
};

/* A streamed round; steps are counted through all segments. */
struct uw_allreduce_stream {
    uint32_t segment_n, steps_n;
    uint32_t recv_k, send_k;        /* send_k is recv_k or a little ahead */
    uint32_t taken_n, sent_n;       /* of these two steps' messages */
    float share;
    struct uw_allreduce_step recv, send;
};

struct uw_allreduce {
    struct uw_allreduce_config config;
    struct uw_allreduce_round r;
    enum uw_allreduce_state state;
    uint32_t steps_n, k;            /* number of steps; the current one */
    struct uw_allreduce_step step;
    float share;                    /* factor of the sum that the step completes */
    bool received;                  /* all of its message has arrived */
    uint32_t bad;                   /* top bit: a value that was written is not finite */
    bool owes_done;                 /* the round is over here; DONE has to be sent */
    bool in_place;                  /* data of this step is applied to x on arrival */
    struct uw_pull pull;
    float *scratch;                 /* [scratch_n] */
    uint32_t held;                  /* the step whose message scratch holds until its GOT */
    uint64_t now_us, ask_us, nudge_us, patience_us;
    uint64_t asked_us;              /* for the first of a step's message; 0: no answer is awaited */
    uint64_t push_us;               /* nothing is pushed before: other ranks begin later */
    uint64_t pace_ns;               /* the next chunk is not pushed before, except a few at first */
    uint8_t tries, nudges;

    uint8_t *got;                   /* [steps_max] of this round: enum uw_got */
    uint32_t *done;                 /* [ranks_max] first round that a rank has not completed */
    uint32_t store_n, steps_max;
    struct uw_allreduce_kept kept[2];
    struct uw_allreduce_out out[UW_ALLREDUCE_OUT_MAX];
    uint32_t out_n;
    struct uw_part_queue queue;
    bool data_first;                /* data goes before questions when the link has room again */
    struct uw_allreduce_way *ways;  /* [ranks_max] */
    struct uw_allreduce_meter meter;
    struct uw_part_store early;     /* streamed: also uses the memory of `kept` behind it */
    uint32_t lost_group, lost_round;    /* streamed: a part of this round was dropped, no room */
    struct uw_allreduce_dropped *dropped;   /* [steps_max] */
    uint64_t dropped_us;            /* last time that a sender was stopped */

    struct uw_allreduce_stream stream;
};

/* Allocate memory for vectors and ranks of up to that size.
 * Returns UW_OK or what uw_arena_take returns. */
int uw_allreduce_place(struct uw_allreduce *a, struct uw_arena *arena,
                       const struct uw_allreduce_config *config);

/* Can no rank ask again for data that the next round overwrites? Then it may begin. */
bool uw_allreduce_settled(const struct uw_allreduce *a);

/* A round begins later. Keep what arrives before; without this call it is lost, and asked for. */
void uw_allreduce_expect(struct uw_allreduce *a, const struct uw_allreduce_round *round);

/* Begin a round; the last one is settled, or given up. */
void uw_allreduce_begin(struct uw_allreduce *a, const struct uw_allreduce_round *round,
                        uint64_t now_us);

/* Return the vector of a completed round to its owner: from now on only copies are sent. */
void uw_allreduce_release(struct uw_allreduce *a);

/* Give up the round. The content of the vector is unspecified. */
void uw_allreduce_stop(struct uw_allreduce *a);

/* Handle a message from a rank.
 * Returns UW_OK, UW_ERR_AGAIN (streams_only: it is early; pass it again after the next run),
 * UW_ERR_MISMATCH (of another group: ignored), UW_ERR_CORRUPT (streamed: data before it is missing,
 * the round has failed). */
int uw_allreduce_take(struct uw_allreduce *a, uint32_t from, const struct uw_part *part,
                      uint64_t now_us);

/* Keep a streamed part of a round that has not begun here; of one group at a time. Without room it
 * is dropped, and the round will fail. */
void uw_allreduce_keep_ahead(struct uw_allreduce *a, const struct uw_part *part);

/* The most segments whose parts can arrive early; and the size of segments for which room_n floats
 * of memory suffice, 0: too little memory. */
uint32_t uw_allreduce_ahead_segments(enum uw_allreduce_kind kind, uint32_t ranks);
uint32_t uw_allreduce_segment_n(enum uw_allreduce_kind kind, uint32_t ranks, uint32_t room_n);

/* Floats of streamed parts that can be kept. */
static inline uint32_t uw_allreduce_ahead_n(const struct uw_allreduce *a)
{
    return 3u * a->store_n;
}

/* After a completed round: is all of the result finite? */
static inline bool uw_allreduce_is_finite(const struct uw_allreduce *a)
{
    return a->bad >> 31 == 0;
}

/* Progress: a number that grows with every message, less at a rank that is behind; and the rank
 * that it waits for, or UW_RANK_NONE. */
uint32_t uw_allreduce_progress(const struct uw_allreduce *a, uint32_t *waits_for);

/* Send what is due. Returns the time of the next call if no message arrives; UINT64_MAX: never. */
uint64_t uw_allreduce_run(struct uw_allreduce *a, uint64_t now_us);

/* Floats of early data that can be kept. */
static inline uint32_t uw_allreduce_early_n(const struct uw_allreduce *a)
{
    uint32_t most_n = UW_ALLREDUCE_EARLY_MAX * a->config.chunk_n;
    return a->store_n < most_n ? a->store_n : most_n;
}

#endif
