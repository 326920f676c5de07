/* SPDX-License-Identifier: Apache-2.0
 *
 * average.h - rounds of an exact average, between the training and the network thread
 *
 * The training thread trains T steps, then hands the parameters over and waits; the network thread
 * averages them in place with those of the cell (cell.h, allreduce.h), or puts back what was there,
 * and hands them back.
 *
 *     training:  T steps, keep a copy, ask(r) . . . . . . . . . . end of round, publish, T steps
 *     network:                          all-reduce in x, ended(r)
 *
 * The copy of what is to come back when a round is aborted is the published snapshot; the rule of
 * mixing is then told in two parts, since the round's start is not there any more. Rules that
 * cannot be (uwasa/mix.h) keep the snapshot, and the copy goes into a vector of its own.
 *
 * A pair (node_pairs.h) is such a round between two nodes, over the vector [x | z] in a place of
 * its own: x, the snapshot and the velocity stay as they are until both have the average, and
 * change in the training thread. When pairs turn out not to be whole, the node goes over to gossip
 * under quasi-global momentum, once and for all.
 *
 * A newcomer first looks for a model to take over; gossip.h does that.
 *
 *     START --newcomer--> LOOK --found one, or none--> TRAIN --T steps--> FOLD --ask--> WAIT
 *       +---------------first snapshot------------------^ ^                              |
 *                                                         +---published---- BACK <-ended-+
 *
 * FOLD is the first part of the rule alone, until no reader holds the snapshot; a pair has none.
 * uw_average_agree goes from START and LOOK to TRAIN, and lets a round over the run follow.
 *
 * Memory     the model's vectors, borrowed
 * Blocking   never      Context  each function names its thread
 */
#ifndef UW_NET_AVERAGE_H
#define UW_NET_AVERAGE_H

#include "gossip.h"

#define UW_DRIFT_MAX 3.0f           /* of a round, either way: a loss near 0 says little */

enum uw_average_scope {
    UW_AVERAGE_CELL,                /* this node's cell */
    UW_AVERAGE_RUN,                 /* all nodes of the run, once, at the end */
    UW_AVERAGE_PAIR                 /* this node and its partner of the round */
};

enum uw_average_end {
    UW_AVERAGE_NONE,                /* nobody to average with: x is as it was */
    UW_AVERAGE_ALONE,               /* a round of one: x is as it was, but no newcomer's any more */
    UW_AVERAGE_DONE
};

/* Where training is in a round; the diagram above. */
enum uw_average_state {
    UW_AVERAGE_START,               /* nothing is published yet */
    UW_AVERAGE_LOOK,                /* a newcomer, in rounds of gossip */
    UW_AVERAGE_TRAIN,
    UW_AVERAGE_FOLD,                /* the rule's first part is done; x is still here */
    UW_AVERAGE_WAIT,                /* the network has x */
    UW_AVERAGE_BACK                 /* x is here again, not yet published */
};

/* When a round begins: after T steps, not for now, or at once. */
enum uw_average_pace { UW_AVERAGE_BY_PERIOD, UW_AVERAGE_HOLD, UW_AVERAGE_NOW };

struct uw_average {
    struct uw_gossip *gossip;       /* its configuration, its snapshot, what it tells */
    float *spare;                   /* [size_n] for rules without before and after, [2 size_n] for
                                       rules over pairs; else NULL */
    float *inbox;                   /* [size_n] to be added to x while it is offered; or NULL */
    bool copies;                    /* what comes back after an abort is in spare */
    bool alike;                     /* training, before asked: x is what the device has, and */
    bool measured;                  /* what the gossip's rms is of */
    bool settled;                   /* network, before ended: and has the average, too */

    /* between the threads */
    atomic_uint_least32_t asked, asked_scope;   /* training: the round that is handed over */
    atomic_uint_least32_t recalled;             /* training: the round it wants back soon */
    atomic_uint_least32_t ended, ended_how;     /* network */

    atomic_uint_least32_t drift;                /* training: a float; uw_average_drift */
    atomic_bool offered;                        /* network sets it, and training is done with it */
    atomic_bool retreat;                        /* network: no more pairs */
    float weight;                               /* network, before ended: the partner's share */

    /* network thread */
    uint32_t taken;

    /* training thread */
    uint32_t round, steps;
    enum uw_average_pace pace;
    float lr_sum;
    float last_loss;                /* of the last step before the latest average; 0: not known */
    uint32_t drifts_n;
    enum uw_average_state state;
    enum uw_average_scope scope, next;      /* of this round; of the next one */
    bool pairs;                     /* rounds are pairs: no retreat yet */
    bool fresh;                     /* nothing was trained since an average */
    bool ruled;                     /* the rule takes part in this round */
    bool follows;                   /* the drift is wanted */
    bool added;                     /* what was offered has been, in this round */
};

/* spare: as above; may be NULL */
void uw_average_init(struct uw_average *a, struct uw_gossip *gossip, float *spare);

/* Training. See uw_node_after_step. */
int uw_average_after_step(struct uw_average *a, const struct uw_node_progress *p);

/* Training, while the network stands still. See uw_node_touches. */
bool uw_average_touches(const struct uw_average *a);

/* Training. The next call of uw_average_after_step, or of the gossip's, whatever its learning rate,
 * begins one average over the whole run. */
void uw_average_agree(struct uw_average *a);

/* Training. Ask for the parameters back: the round is given up unless it is about to end. */
void uw_average_recall(struct uw_average *a);

/* Network. Go over to quasi-global momentum; training does so between two rounds. */
void uw_average_retreat(struct uw_average *a);

/* Network. What averages do to the loss of this node's own samples: the natural logarithm of the
 * loss right after one over the loss right before, a mean over the last rounds. Not above 0 where
 * all nodes' samples are of one distribution; large where they are not, and local steps drift
 * apart. 0 while not known. */
float uw_average_drift(const struct uw_average *a);

/* Network. Does training want the round back that was taken last? */
bool uw_average_recalled(const struct uw_average *a);

/* Network. A round that was handed over and was not returned before; 0: none. */
uint32_t uw_average_next_round(struct uw_average *a, enum uw_average_scope *scope);

/* Network. Have inbox added to x, and cleared, at the end of the next local step: what a cell of
 * one has pulled waits for no round. */
void uw_average_offer(struct uw_average *a);

/* Network. Take an offer back, while training waits. Returns whether it was still open. */
bool uw_average_keep(struct uw_average *a);

/* Network. Is an offer open? */
bool uw_average_offers(const struct uw_average *a);

/* Network, between take and ended. Put back what was handed over. */
void uw_average_restore(struct uw_average *a);

/* Network. Hand the parameters back; of a pair the mean is in spare when it is done. */
void uw_average_ended(struct uw_average *a, enum uw_average_end how);

#endif
