/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap.h - averaging a step's gradients during the backward pass, as a state machine
 *
 * The gradients come in buckets, one for each layer. A bucket is cut into fragments, and every
 * fragment is an all-reduce of its own, by the steps of uwasa/allreduce_steps.h. All fragments of
 * all ready buckets run concurrently; ranks may process them in any order.
 *
 * The order of sending is decided anew for every message: buckets of up to small_n floats first,
 * then by bucket number. Buckets are numbered in the order in which the forward pass needs them. So
 * the lower layers, whose gradients are ready last, overtake the upper ones.
 *
 * A rank that has reached a step asks for the step's message. The sender sends it when it has
 * reached the step, too. So no early data has to be stored, and struct uw_fragment is all the state
 * of a fragment. A fragment has at most 64 chunks, so that one word is a bitmap of them.
 *
 *     uw_overlap_place(&o, &arena, &config);       once
 *     uw_overlap_begin(&o, &group, now_us);        whenever the ranks change
 *     uw_overlap_ready(&o, bucket, x, now_us);     every step, for each computed bucket
 *     uw_overlap_take(...), uw_overlap_run(...)    when a message arrives; when work is due
 *     uw_overlap_state(&o, bucket)                 is it averaged?
 *
 * Every rank makes every bucket ready equally often: the n-th time on one rank belongs to the n-th
 * on the others. A rank whose step failed cannot do that, and leaves the group. When a group is
 * given up, each rank stops where it is. The caller checks which buckets are averaged at its rank,
 * and then averages the parameters once, because other ranks may have averaged other buckets.
 *
 * Algorithms. Many concurrent fragments hide the latency of their steps. So a ring is as fast as
 * halving, for any number of ranks, and faster on a switch, because no two ranks send to the same
 * one. Halving takes twice as long when the number of ranks is not a power of two.
 *
 * Links. On a reliable link a message counts as delivered when the link has taken it. Questions are
 * repeated rarely, in case one arrived before its receiver began the group. On other links missing
 * messages are asked for again, and a message is answered with GOT or by a question about a later
 * step. There is no congestion control: window_chunks limits the chunks on their way.
 *
 * Whole steps. A group may have another transport (struct uw_overlap_whole), which averages all
 * buckets of a step at once; then no messages are sent. It does not show which rank is late. So a
 * rank that has begun reports that it waits for the next rank, and a rank that has not begun
 * reports none. When all ranks have begun and wait in a circle, the transport is the cause.
 *
 *     GIVEN_UP --begin--> ACTIVE --every bucket of a whole step is ready--> WHOLE_BEGUN --> ACTIVE
 *        ^                   |                                                   |
 *        +------ stop -------+--------------- WHOLE_FAILED <--- error -----------+
 *
 * Threads. The training thread hands a gradient over when the backward pass has computed it, and
 * takes it back before the next forward pass needs it. The network thread owns it in between.
 *
 *     training:  ready(bucket, x) . . . . . . . . . . . state(bucket) is not running: update
 *     network:         run(): overlap.h in x . . . . . ended
 *
 * So m->bucket_ready of a model with late updates (uwasa/bucket.h) is uw_overlap_gate_ready, and
 * m->bucket_wait looks at uw_overlap_gate_state until it is another than UW_OVERLAP_RUNNING. The
 * network thread begins a group while the gate is idle, and gives one up at any time.
 *
 * Units      _n floats, _us microseconds
 * Memory     tables from an arena; gradients are the caller's, changed in place
 * Blocking   never      Context  network thread; the gate names its threads
 * Source     the order of messages: "priority-based" schedules as in A. Jayarajan et al.,
 *            "Priority-based parameter propagation for distributed DNN training", 2019
 */
#ifndef UW_NET_OVERLAP_H
#define UW_NET_OVERLAP_H

#include "part_queue.h"

#include "uwasa/arena.h"

#include <stdatomic.h>

#define UW_OVERLAP_CHUNKS_MAX 64u       /* of a fragment */
#define UW_OVERLAP_FRAGMENTS_MAX 65535u /* operations 1.. of struct uw_part; 0 is no fragment's */

struct uw_overlap_config {
    enum uw_allreduce_kind kind;    /* tree, halving or ring: what is received is not what is being
                                       sent; it may change before a group begins */
    const uint32_t *bucket_n;       /* [buckets_n] floats of each, borrowed until place returns */
    uint32_t buckets_n;
    uint32_t ranks_max;             /* 2 to 65535 */
    uint32_t chunk_n;               /* floats of a data message at most */
    uint32_t fragment_n;            /* floats of a fragment at most; 0, or above 64 chunks: 64
                                       chunks */
    uint32_t small_n;               /* buckets up to this go before larger ones; 0: chunk_n */
    uint32_t window_chunks;         /* most chunks asked for and not received; 0: no limit */
    bool reliable;                  /* the link loses nothing and keeps the order */
    /* As struct uw_part_queue's; part->floats points into the gradient. */
    int (*send)(void *arg, uint32_t rank, const struct uw_part *part);
    /* A fragment's first message was sent or received; end: it is averaged. (optional) */
    void (*trace)(void *arg, uint32_t bucket, uint32_t fragment, bool end, uint64_t now_us);
    void *arg;
};

struct uw_overlap_group {
    uint32_t group;                 /* unique: no other set of ranks ever has this number */
    uint32_t ranks, rank;
    uint64_t rtt_us;                /* about, between two ranks; 0: not known */
    const struct uw_overlap_whole *whole;   /* (optional) instead of messages; borrowed */
};

/* A transport that averages all buckets of a step at once, when all are ready. */
struct uw_overlap_whole {
    /* The gradients are in o->buckets. Returns UW_OK or an error. */
    int (*begin)(void *arg);
    /* Returns UW_OK (they have the average), UW_ERR_AGAIN or an error. */
    int (*poll)(void *arg);
    /* Give up what has begun or failed. The gradients are not accessed after return. */
    void (*stop)(void *arg);
    void *arg;
};

/* State of a group: the diagram above. */
enum uw_overlap_phase {
    UW_OVERLAP_GIVEN_UP,            /* also: no group yet */
    UW_OVERLAP_ACTIVE,
    UW_OVERLAP_WHOLE_BEGUN,         /* a step is averaged at once */
    UW_OVERLAP_WHOLE_FAILED         /* the transport has failed */
};

/* State of a bucket. */
enum uw_overlap_state {
    UW_OVERLAP_IDLE,                /* not ready yet in this group */
    UW_OVERLAP_RUNNING,
    UW_OVERLAP_DONE,
    UW_OVERLAP_STOPPED              /* given up; the gradient's content is unspecified */
};

/* Bit i of the first four words is chunk i of the message received, or sent, in step k. */
struct uw_fragment {
    uint64_t have, out;             /* received message: has arrived; is asked for */
    uint64_t wanted, sent;          /* sent message: has to be sent; was sent */
    uint64_t ahead, next;           /* bit j: the receiver asked for step k + j, for step j of the
                                       next round */
    uint64_t due_us;                /* when to ask again, or to send the last chunk again */
    uint32_t at, size_n;            /* within the bucket */
    uint32_t bucket;
    uint16_t to, from;              /* ranks of step k; UINT16_MAX: none */
    uint16_t k;
    uint8_t tries;
    bool running : 1, moved : 1, got : 1;
};

struct uw_overlap_bucket {
    float *x;
    uint32_t first, fragments_n, done_n;
    uint32_t round;
    enum uw_overlap_state state;
};

struct uw_overlap {
    struct uw_overlap_config config;
    struct uw_overlap_group group;
    enum uw_overlap_phase phase;
    struct uw_overlap_bucket *buckets;
    struct uw_fragment *fragments;  /* in the order of sending */
    struct uw_part_queue queue;
    uint32_t *asking, *sending;     /* sets of fragments with a question, with chunks to send */
    uint32_t *blocked;              /* [ranks_max] the last run in which its link was full */
    uint32_t *waiting;              /* [ranks_max] fragments with chunks to send to it */
    uint32_t fragments_n, runs;
    uint32_t steps_n, out_chunks, running_n, advanced_n;
    bool refused;                   /* a link was full in this run */
    uint64_t whole_us;              /* begin of the whole step */
    uint64_t now_us, due_us, patience_us;
};

/* Cut the buckets into fragments.
 * Returns UW_OK, UW_ERR_UNSUPPORTED (doubling or sweep), UW_ERR_INVALID (no bucket, an empty one,
 * no chunk, one rank), UW_ERR_TOOBIG (more fragments than fit) or what uw_arena_take returns. */
int uw_overlap_place(struct uw_overlap *o, struct uw_arena *arena,
                     const struct uw_overlap_config *config);

/* Begin a group of ranks. The previous group is given up. */
void uw_overlap_begin(struct uw_overlap *o, const struct uw_overlap_group *group, uint64_t now_us);

/* A bucket's gradient is computed: average it. The bucket must not be running. x belongs to the
 * engine while the state is UW_OVERLAP_RUNNING. Without a group the bucket is stopped at once.
 *   x  [bucket_n] */
void uw_overlap_ready(struct uw_overlap *o, uint32_t bucket, float *x, uint64_t now_us);

static inline enum uw_overlap_state uw_overlap_state(const struct uw_overlap *o, uint32_t bucket)
{
    return o->buckets[bucket].state;
}

/* Progress: a number that grows with every step of a fragment; and the rank that the slowest
 * fragment waits for, or UW_RANK_NONE. */
uint32_t uw_overlap_progress(const struct uw_overlap *o, uint32_t *waits_for);

/* Give up running buckets, and those that become ready before the next group begins. Averaged
 * buckets stay averaged. */
void uw_overlap_stop(struct uw_overlap *o);

/* Handle a message from a rank; those of other groups are ignored. */
void uw_overlap_take(struct uw_overlap *o, uint32_t from, const struct uw_part *part,
                     uint64_t now_us);

/* Send what is due, until the links are full. Returns the time of the next call if no message
 * arrives; UINT64_MAX: never. */
uint64_t uw_overlap_run(struct uw_overlap *o, uint64_t now_us);

struct uw_overlap_slot {
    float *x;                               /* written before asked */
    atomic_uint_least32_t asked, ended;     /* counts, written by training and by network */
    atomic_uint_least32_t how;              /* enum uw_overlap_state, written before ended */
    uint32_t taken;                         /* network: last `asked` it has handled */
};

struct uw_overlap_gate {
    struct uw_overlap *overlap;
    struct uw_overlap_slot *slots;          /* [slots_n] one for each bucket */
    uint32_t slots_n;
};

/* Allocate the gate of an overlap, after uw_overlap_place. Returns UW_OK or what uw_arena_take
 * returns. */
int uw_overlap_gate_place(struct uw_overlap_gate *g, struct uw_arena *arena,
                          struct uw_overlap *overlap);

/* Training. Hand over a bucket's gradient; the bucket must not be running. */
void uw_overlap_gate_ready(struct uw_overlap_gate *g, uint32_t bucket, float *x);

/* Training. UW_OVERLAP_IDLE before the first ready; then UW_OVERLAP_RUNNING; then UW_OVERLAP_DONE
 * or UW_OVERLAP_STOPPED, and x belongs to the training thread again. */
enum uw_overlap_state uw_overlap_gate_state(const struct uw_overlap_gate *g, uint32_t bucket);

/* Network. Take new gradients, run, return ended ones. Returns the time of the next call if no
 * message or gradient arrives; UINT64_MAX: never. */
uint64_t uw_overlap_gate_run(struct uw_overlap_gate *g, uint64_t now_us);

#endif
