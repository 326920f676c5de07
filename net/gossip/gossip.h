/* SPDX-License-Identifier: Apache-2.0
 *
 * gossip.h - rounds of pull gossip, between the network thread and the training thread
 *
 * The training thread requests the pull of a round. The network thread pushes the chunks of the
 * pull into a ring and reports the end of the pull. The training thread mixes chunks of the ring
 * between steps and ends the round. Chunks are mixed as a whole; a pull that ends early leaves the
 * rest of the vector unchanged.
 *
 *     training:  request(r) ........ mix, mix, mix ........ end of round, publish, request(r+1)
 *     network:          pick a peer, push, push, push, ended(r)
 *
 * States of the training thread, and in parallel the origin of the parameters:
 *
 *     IDLE --first step--> PULLING --T steps are done, the pull has ended--> ENDING
 *                             ^                                                |
 *                             '-----------------published----------------------+--> RESTING
 *                                                      adopt_only, and no partial model
 *
 *     OWN --a newcomer's chunk--> TAKING --its pull was cut--> HALF
 *      ^                             |                          |
 *      '------ it is complete -------'--complete, or no peer left
 *
 * A pull may take longer than T steps: every T steps the rule is applied and the parameters are
 * published; the round ends with the pull, also within the T steps. The network thread skips peers
 * whose version was mixed before, so that a slow peer delays no one.
 *
 * Guards. The network thread refuses chunks that are damaged, of another run or model, or not
 * finite. The training thread refuses outliers: chunks whose rms difference to the own parameters
 * exceeds 32 times the rms of all parameters. An outlier ends the pull. For a newcomer the limit is
 * 1000 times the rms of its initial weights: it rejects a model that has diverged, and no trained
 * one. An optional part (guard.h) judges pulls more closely.
 *
 * Without a snapshot the progress since the round began is not known: chunks are mixed as
 * (1 - w) x + w s_peer, and rules that need the round's start cannot be used.
 *
 * Units      _n floats
 * Memory     the ring comes from an arena; model vectors are borrowed
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

enum uw_gossip_end {
    UW_GOSSIP_NONE,                 /* no peer to pull from */
    UW_GOSSIP_CUT,                  /* ended early */
    UW_GOSSIP_COMPLETE,
    UW_GOSSIP_STALE                 /* all reachable peers have versions that were mixed before */
};

struct uw_gossip_config {
    const struct uw_params *params;
    struct uw_snapshot *snapshot;   /* NULL: peers pull the parameters themselves */
    float *velocity;
    const struct uw_node_image *image;      /* NULL: training works in params->x */
    const struct uw_mix_rule *rule;
    struct uw_mix_constants constants;
    uint32_t period_steps;          /* T; with an adaptive period the initial one */
    uint32_t pulls_n;               /* pulls of T steps; 0: 1 */
    uint32_t chunk_n;               /* largest chunk */
    uint32_t slots_n;               /* size of the ring in chunks */
    bool newcomer;
    bool holds;                     /* publish only at the end of a round */
    bool adopt_only;                /* rest after a round without a model to take over, or after
                                       taking it over: for a newcomer that averages */
};

struct uw_gossip_slot {
    uint32_t round, offset_n, count_n;
    bool adopt;
    float weight;                   /* the peer's share; 0: that of the constants */
    uint32_t from_id;               /* its sender, in a pull from several peers; 0: the pull's */
    float x[];                      /* [chunk_n] */
};

enum uw_gossip_state {
    UW_GOSSIP_IDLE,
    UW_GOSSIP_PULLING,              /* a round waits for its pull, or for its steps */
    UW_GOSSIP_ENDING,               /* over, but not published: the snapshot was being read */
    UW_GOSSIP_RESTING               /* until uw_gossip_go_on, or an average begins */
};

enum uw_gossip_model {
    UW_GOSSIP_OWN,
    UW_GOSSIP_TAKING,               /* this round mixes in chunks of another model */
    UW_GOSSIP_HALF                  /* a part of another model, not published */
};

/* Small fields first: boards access them with short instructions. */
struct uw_gossip {
    /* training thread */
    uint8_t state;                  /* enum uw_gossip_state */
    uint8_t model;                  /* enum uw_gossip_model */
    bool turned;                    /* the rule was applied to these steps; not yet published */
    bool jumped;                    /* a model, or an average, was taken over since the last
                                       publish: the difference to the snapshot is not a step */
    bool moves_known;               /* to the guard: the way since the last publish */

    /* shared: named after the thread that writes */
    atomic_bool hurry;                          /* network: peers have begun the next round */
    atomic_bool newcomer;                       /* training: no model was taken over yet */

    /* training thread */
    uint32_t round;
    uint32_t period_steps;          /* T of this round */
    uint32_t round_steps;           /* since the round's request */
    uint32_t steps;                 /* since the last publish */
    uint32_t mixed_round;           /* chunks mixed in this round, those with share 0 too */

    struct uw_image image;          /* training thread */

    struct uw_gossip_config config;
    uint8_t *ring;
    size_t slot_bytes;

    /* shared */
    atomic_uint_least32_t head;                 /* training: index in the ring, below 2 slots_n */
    atomic_uint_least32_t tail;                 /* network: the same */
    atomic_uint_least32_t asked;                /* training: the round that requests a pull */
    atomic_uint_least32_t ended, ended_how;     /* network: the round whose pull has ended */
    atomic_uint_least32_t period;               /* network, or uw_gossip_set_period: T from the
                                                   next round on */
    atomic_uint_least32_t rejected;             /* training: the round of an outlier */
    atomic_uint_least32_t doubted;              /* of that, whether the guard doubts */
    atomic_uint_least32_t outlier_id;           /* training: its sender, of several peers */
    atomic_uint_least32_t step, version, rounds, loss, accuracy, samples_per_s; /* training */
    atomic_uint_least32_t power_mw, temperature_mc, battery_percent, still_s;
    atomic_uint_least32_t mixed, outliers, shown_rms;

    /* network thread */
    uint32_t taken;                 /* last round read from `asked` */

    /* training thread */
    struct uw_guard *guard;         /* NULL: none */
    float lr_sum;                   /* of the steps since the last publish */
    float mixed_models;             /* mixed in since the rule was applied */
    float recent;                   /* see uw_mix_recent */
};

/* Relaxed access to shared numbers. */
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

/* Training. The parameters when the round began; NULL: not known. */
static inline const float *uw_gossip_start(const struct uw_gossip *g)
{
    const struct uw_snapshot *s = g->config.snapshot;
    return s != NULL && s->version != 0 ? s->data : NULL;
}

static inline bool uw_gossip_is_newcomer(const struct uw_gossip *g)
{
    return atomic_load_explicit(&g->newcomer, memory_order_relaxed);
}

/* Network. Can peers pull? Without a snapshot (one thread), not while a model is taken over. */
static inline bool uw_gossip_shows(const struct uw_gossip *g)
{
    return uw_load(&g->version) != 0 &&
           (g->config.snapshot != NULL || g->model == UW_GOSSIP_OWN);
}

static inline size_t uw_gossip_slot_bytes(uint32_t chunk_n)
{
    return sizeof(struct uw_gossip_slot) + chunk_n * sizeof(float);
}

/* Allocate the memory. Returns UW_OK or what uw_arena_take returns. */
int uw_gossip_place(struct uw_gossip *g, struct uw_arena *arena,
                    const struct uw_gossip_config *config);

/* Training. See uw_node_after_step. */
int uw_gossip_after_step(struct uw_gossip *g, const struct uw_node_progress *p);

/* Training, while the network thread does not run. See uw_node_touches. */
bool uw_gossip_touches(const struct uw_gossip *g);

/* Training. Set T, from the next step on. */
void uw_gossip_set_period(struct uw_gossip *g, uint32_t steps);

/* Training. Set the progress that is reported to peers. */
void uw_gossip_report(struct uw_gossip *g, const struct uw_node_progress *p);

/* The thread that mixes. The share of a chunk's difference from `own` [count_n] that is mixed with
 * this weight; below 0: it is too far away. guard: of these pulls; NULL: none. */
float uw_gossip_share(const struct uw_gossip *g, struct uw_guard *guard,
                      const struct uw_gossip_slot *s, const float *own, float weight);

/* Training. The guard measures the way since the last publish, once until the next one. */
void uw_gossip_moves(struct uw_gossip *g);

/* Training. Publish the current parameters.
 *   measure  their rms, too
 * Returns UW_OK, UW_ERR_AGAIN (being read) or UW_ERR_UNSUPPORTED. */
int uw_gossip_publish(struct uw_gossip *g, uint32_t step, bool measure);

/* Training, in state IDLE or RESTING. Do rounds of gossip under this rule from now on. The next
 * uw_gossip_after_step begins the first. */
void uw_gossip_go_on(struct uw_gossip *g, const struct uw_mix_rule *rule);

/* Training. Update the rule's uw_mix_recent after a round of an average, of a whole model or none.
 */
void uw_gossip_recall(struct uw_gossip *g, bool mixed);

/* Training. Stop being a newcomer: peers may take the model over. */
static inline void uw_gossip_settle(struct uw_gossip *g)
{
    atomic_store_explicit(&g->newcomer, false, memory_order_release);
}

/* Training. A round has mixed in peers' parameters: stop being a newcomer. */
void uw_gossip_mixed_round(struct uw_gossip *g);

/* Network, or under a lock of both threads. Is a pull requested? */
static inline bool uw_gossip_asks(const struct uw_gossip *g)
{
    return uw_load(&g->asked) != g->taken;
}

/* Network. The requested round, once; 0: none. */
uint32_t uw_gossip_next_round(struct uw_gossip *g);

/* Network. Free slots of the ring. */
uint32_t uw_gossip_room(const struct uw_gossip *g);

/* Network. The next free slot, to be filled and pushed; NULL: the ring is full. */
struct uw_gossip_slot *uw_gossip_slot(struct uw_gossip *g);
void uw_gossip_push(struct uw_gossip *g);

/* Network, while training does not mix: the oldest slot pushed, or NULL; and remove it. */
const struct uw_gossip_slot *uw_gossip_oldest(const struct uw_gossip *g);
void uw_gossip_pop(struct uw_gossip *g);

/* Network. The pull of this round has ended, after the slots pushed. */
void uw_gossip_ended(struct uw_gossip *g, uint32_t round, enum uw_gossip_end how);

/* Network. The rms of all parameters at the last publish. */
static inline float uw_gossip_rms(const struct uw_gossip *g)
{
    return uw_load_float(&g->shown_rms);
}

/* Network. End the steps of this round early, because peers have begun the next round. Only with
 * config.holds. */
static inline void uw_gossip_shorten_round(struct uw_gossip *g)
{
    atomic_store_explicit(&g->hurry, true, memory_order_relaxed);
}

/* Network. Sender of an outlier since the last call, of several peers; 0: none. */
uint32_t uw_gossip_outlier_id(struct uw_gossip *g);

/* Network. The training thread refused a chunk of this round. */
static inline bool uw_gossip_rejected(const struct uw_gossip *g, uint32_t round)
{
    return uw_load(&g->rejected) == round;
}

/* Network. Of a round that was refused: is it doubtful that the peer is to blame? */
static inline bool uw_gossip_doubts(const struct uw_gossip *g)
{
    return uw_load(&g->doubted) != 0;
}

#endif
