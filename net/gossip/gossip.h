/* SPDX-License-Identifier: Apache-2.0
 *
 * gossip.h - rounds of pull gossip: where the network meets the training thread
 *
 * The training thread asks for the pull of a round; the network thread pushes the chunks of that
 * pull into a ring and says when the pull has ended; the training thread mixes what is in the ring
 * between steps and ends the round. A chunk is mixed whole or not at all; a pull that ends early
 * leaves the rest of the vector as it was.
 *
 *     training:  ask(r) ................ mix, mix, mix ............ end of round, publish, ask(r+1)
 *     network:          pick a peer, push, push, push, ended(r)
 *
 * The training thread's states, and beside them whose model the parameters are:
 *
 *     IDLE --first step--> PULLING --T steps are done, the pull has ended--> ENDING
 *                             ^                                                |
 *                             '-----------------published----------------------+--> RESTING
 *                                                      adopt_only, and nothing half taken
 *
 *     OWN --a newcomer's chunk--> TAKING --its pull was cut--> HALF
 *      ^                             |                          |
 *      '------ it is complete -------'--all of one, or nobody left'
 *
 * A pull that takes longer than T steps holds nothing up: every T steps the rule has its turn and
 * the parameters are published; the round ends when the pull does, in the middle of T steps too.
 * A peer that shows what was mixed in before is passed over by the network thread, so that one that
 * is slow holds nobody back.
 *
 * Guards at the mixing point. The network thread has already refused chunks that are damaged, of
 * another run or model, or not finite. Here a chunk is an outlier when the rms of its difference
 * to ours exceeds both 10 times the running median of that rms in the chunk's segment and 32 times
 * the rms of all parameters. The second is the floor that lets honest models differ at the start.
 * An outlier ends the pull. For a newcomer that adopts a model the limit is 1000 times the rms
 * of its own fresh weights: it keeps out a model that has diverged, and no trained one.
 *
 * Without a snapshot nothing tells what was learned since the round began: chunks are mixed as
 * (1 - w) x + w s_peer, and rules that need the round's start cannot be.
 *
 * Units      _n floats
 * Memory     ring and medians come from an arena; model vectors are borrowed
 * Blocking   never
 * Context    each function names its thread
 */
#ifndef UW_NET_GOSSIP_H
#define UW_NET_GOSSIP_H

#include "base/bits.h"
#include "mix/image.h"

#include "uwasa/arena.h"
#include "uwasa/mix.h"
#include "uwasa/node_status.h"
#include "uwasa/params.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define UW_GOSSIP_OUTLIER_FLOOR 32.0f   /* times the rms of the whole model: not yet an outlier */

enum uw_gossip_end {
    UW_GOSSIP_NONE,                 /* nobody to pull from */
    UW_GOSSIP_CUT,                  /* ended early */
    UW_GOSSIP_COMPLETE,
    UW_GOSSIP_STALE                 /* whoever can be asked shows what was mixed in before */
};

struct uw_gossip_config {
    const struct uw_params *params;
    struct uw_snapshot *snapshot;   /* NULL: others see the parameters as they are */
    float *velocity;
    const struct uw_node_image *image;      /* NULL: params->x is what training works in */
    const struct uw_mix_rule *rule;
    struct uw_mix_constants constants;
    uint32_t period_steps;          /* T until the network says another */
    uint32_t chunk_n;               /* largest chunk */
    uint32_t slots_n;               /* chunks the ring holds */
    bool newcomer;
    bool holds;                     /* what is shown stays as it is until the round ends */
    bool adopt_only;                /* rest after a round in which there was nothing to adopt, or
                                       all of it is; the exchange of a newcomer that averages */
};

struct uw_gossip_slot {
    uint32_t round, offset_n, count_n;
    bool adopt;
    float weight;                   /* the peer's share; 0: that of the constants */
    uint32_t from_id;               /* who sent it, where a round is of many; 0: its pull's peer */
    float x[];                      /* [chunk_n] */
};

enum uw_gossip_state {
    UW_GOSSIP_IDLE,
    UW_GOSSIP_PULLING,              /* a round waits for its pull, or for its steps */
    UW_GOSSIP_ENDING,               /* it is over, and not yet published: a reader was inside */
    UW_GOSSIP_RESTING               /* until uw_gossip_go_on, or an average has the next round */
};

enum uw_gossip_model {
    UW_GOSSIP_OWN,
    UW_GOSSIP_TAKING,               /* this round has chunks of somebody else's */
    UW_GOSSIP_HALF                  /* an earlier one had, and not all of them: shown to nobody */
};

/* Small things first: boards reach them with short instructions. */
struct uw_gossip {
    /* training thread */
    uint8_t state;                  /* enum uw_gossip_state */
    uint8_t model;                  /* enum uw_gossip_model */
    bool turned;                    /* the rule's part of these steps is done; nothing shown yet */
    bool jumped;                    /* taken over in part since it was last published: what it is
                                       now is no step from the snapshot */

    /* between the threads */
    atomic_bool hurry;                          /* network: others have begun the next round */
    atomic_bool newcomer;                       /* training: still without anybody's model */

    /* training thread */
    uint32_t round;
    uint32_t period_steps;          /* T of this round */
    uint32_t round_steps;           /* since the round was asked for */
    uint32_t steps;                 /* since it was last published */
    uint32_t mixed_round;           /* chunks mixed in this round */

    struct uw_image image;          /* training thread */

    struct uw_gossip_config config;
    uint8_t *ring;
    size_t slot_bytes;

    /* between the threads */
    atomic_uint_least32_t head;                 /* training: place in the ring, below 2 slots_n */
    atomic_uint_least32_t tail;                 /* network: the same */
    atomic_uint_least32_t asked;                /* training: the round that wants a pull */
    atomic_uint_least32_t ended, ended_how;     /* network: the round whose pull has ended */
    atomic_uint_least32_t period;               /* network: T from the next round on */
    atomic_uint_least32_t rejected;             /* training: round whose peer sent an outlier */
    atomic_uint_least32_t outlier_id;           /* training: who did, in a round of many */
    atomic_uint_least32_t step, version, rounds, loss, accuracy, samples_per_s; /* training tells */
    atomic_uint_least32_t power_mw, temperature_mc, battery_percent;
    atomic_uint_least32_t mixed, outliers, shown_rms;

    /* network thread */
    uint32_t taken;                 /* last round taken from `asked` */

    /* training thread */
    float *median;                  /* [segments_n] of chunk distances; 0: none yet */
    float lr_sum;                   /* of the steps since it was last published */
    float mixed_models;             /* mixed in since the rule's turn */
    float recent;                   /* see uw_mix_recent */
    float rms;                      /* of all parameters, when last published */
};

/* Numbers between the threads, relaxed. */
UW_INLINE uint32_t uw_load(const atomic_uint_least32_t *from)
{
    return (uint32_t)atomic_load_explicit(from, memory_order_relaxed);
}

static inline void uw_store_float(atomic_uint_least32_t *to, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    atomic_store_explicit(to, bits, memory_order_relaxed);
}

static inline float uw_load_float(const atomic_uint_least32_t *from)
{
    uint32_t bits = uw_load(from);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline bool uw_gossip_is_newcomer(const struct uw_gossip *g)
{
    return atomic_load_explicit(&g->newcomer, memory_order_relaxed);
}

/* Network. Is there something to show? Without a snapshot, where one thread does all, half of
 * somebody else's model is nothing. */
static inline bool uw_gossip_shows(const struct uw_gossip *g)
{
    return uw_load(&g->version) != 0 &&
           (g->config.snapshot != NULL || g->model == UW_GOSSIP_OWN);
}

/* Bytes of one slot of the ring. */
static inline size_t uw_gossip_slot_bytes(uint32_t chunk_n)
{
    return sizeof(struct uw_gossip_slot) + chunk_n * sizeof(float);
}

/* Take the memory. Returns UW_OK or what uw_arena_take returns. */
int uw_gossip_place(struct uw_gossip *g, struct uw_arena *arena,
                    const struct uw_gossip_config *config);

/* Training. See uw_node_after_step. */
int uw_gossip_after_step(struct uw_gossip *g, const struct uw_node_progress *p);

/* Training, while the network stands still. See uw_node_touches. */
bool uw_gossip_touches(const struct uw_gossip *g);

/* Training. What others are told of it. */
void uw_gossip_report(struct uw_gossip *g, const struct uw_node_progress *p);

/* Training. Publish the parameters as they are.
 *   measure  their rms, too
 * Returns UW_OK, UW_ERR_AGAIN (a reader is inside) or UW_ERR_UNSUPPORTED. */
int uw_gossip_publish(struct uw_gossip *g, uint32_t step, bool measure);

/* Training, while the gossip rests or was never asked: rounds of gossip under this rule from now
 * on. The next uw_gossip_after_step begins the first. */
void uw_gossip_go_on(struct uw_gossip *g, const struct uw_mix_rule *rule);

/* Training thread. A round of an average is over, of all of the model or of nothing: for the rule's
 * next turn. */
void uw_gossip_recall(struct uw_gossip *g, bool mixed);

/* Training thread. Others may take the model over: it is no newcomer's any more. */
static inline void uw_gossip_settle(struct uw_gossip *g)
{
    atomic_store_explicit(&g->newcomer, false, memory_order_release);
}

/* Training. A round has mixed in others' parameters: this node is no newcomer any more. */
void uw_gossip_mixed_round(struct uw_gossip *g);

/* Network, or whoever keeps both threads apart. Does a round wait for its pull? */
static inline bool uw_gossip_asks(const struct uw_gossip *g)
{
    return uw_load(&g->asked) != g->taken;
}

/* Network. A round that waits for its pull and was not returned before; 0: none. */
uint32_t uw_gossip_next_round(struct uw_gossip *g);

/* Network. Free slots of the ring. */
uint32_t uw_gossip_room(const struct uw_gossip *g);

/* Network. The next free slot, to be filled and then handed over with push; NULL: no room. */
struct uw_gossip_slot *uw_gossip_slot(struct uw_gossip *g);
void uw_gossip_push(struct uw_gossip *g);

/* Network, while training mixes nothing: the oldest slot that was pushed, or NULL; and past it. */
const struct uw_gossip_slot *uw_gossip_oldest(const struct uw_gossip *g);
void uw_gossip_pop(struct uw_gossip *g);

/* Network. The pull of this round is over; everything that was pushed belongs to it. */
void uw_gossip_ended(struct uw_gossip *g, uint32_t round, enum uw_gossip_end how);

/* Network. The rms of all parameters when they were last published. */
static inline float uw_gossip_rms(const struct uw_gossip *g)
{
    return uw_load_float(&g->shown_rms);
}

/* Network. Others have begun the next round, and this node is in its steps yet: let it come now,
 * with fewer steps. Only where what is shown is held. */
static inline void uw_gossip_shorten_round(struct uw_gossip *g)
{
    atomic_store_explicit(&g->hurry, true, memory_order_relaxed);
}

/* Network. Who of many sent an outlier since the last call; 0: nobody. */
uint32_t uw_gossip_outlier_id(struct uw_gossip *g);

/* Network. The training thread refused a chunk of this round. */
static inline bool uw_gossip_rejected(const struct uw_gossip *g, uint32_t round)
{
    return uw_load(&g->rejected) == round;
}

#endif
