/* SPDX-License-Identifier: Apache-2.0
 *
 * average.h - rounds of an exact average, between the training and the network thread
 *
 * The training thread trains T steps, hands the parameters over and waits. The network thread
 * averages them in place with those of the cell (cell.h, allreduce.h), or restores them, and hands
 * them back.
 *
 *     training:  T steps, keep a copy, request(r) . . . . . . . . end of round, publish, T steps
 *     network:                          all-reduce in x, ended(r)
 *
 * A round that does not begin soon does not stop the training: the network hands x back unchanged
 * (uw_average_lend), and calls for it again when the round begins (uw_average_call).
 *
 * The copy for an aborted round is the published snapshot. The mixing rule is then applied in two
 * parts, because the round's start is overwritten. Rules without these parts (uwasa/mix.h) keep the
 * snapshot, and the copy is in a vector of its own.
 *
 * A pair (node_pairs.h) is such a round of two nodes, over the vector [x | z] in a buffer of its
 * own: x, the snapshot and the velocity do not change until both nodes have the average, and then
 * in the training thread. When pairs fail too often, the node changes to gossip under quasi-global
 * momentum for good.
 *
 * A newcomer first takes over a model, by gossip.h.
 *
 *     START --newcomer--> LOOK --found one, or none--> TRAIN --T steps--> FOLD --request--> WAIT
 *       +---------------first snapshot------------------^ ^                                  |
 *                                                         +-----published------ BACK <-ended-+
 *
 * FOLD applies the first part of the rule and waits until nobody reads the snapshot; pairs skip it.
 * uw_average_agree changes START and LOOK to TRAIN, with a round over the run next.
 *
 * Memory     the model's vectors, borrowed
 * Blocking   never      Context  each function names its thread
 */
#ifndef UW_NET_AVERAGE_H
#define UW_NET_AVERAGE_H

#include "gossip.h"

#define UW_DRIFT_MAX 3.0f           /* limit of a round's drift: losses near 0 are noisy */

enum uw_average_scope {
    UW_AVERAGE_CELL,                /* this node's cell */
    UW_AVERAGE_RUN,                 /* all nodes of the run, once, at the end */
    UW_AVERAGE_PAIR                 /* this node and its partner of the round */
};

enum uw_average_end {
    UW_AVERAGE_NONE,                /* no node to average with: x is unchanged */
    UW_AVERAGE_ALONE,               /* a round of one: x is unchanged; ends being a newcomer */
    UW_AVERAGE_LENT,                /* the round has not begun yet: x is unchanged */
    UW_AVERAGE_DONE
};

/* States of the training thread: see the diagram above. */
enum uw_average_state {
    UW_AVERAGE_START,               /* no version published yet */
    UW_AVERAGE_LOOK,                /* a newcomer, in rounds of gossip */
    UW_AVERAGE_TRAIN,
    UW_AVERAGE_FOLD,                /* rule->before was applied; x not handed over yet */
    UW_AVERAGE_WAIT,                /* the network owns x */
    UW_AVERAGE_BACK                 /* x is back, not yet published */
};

/* When a round begins: after T steps, not for now, or at once. */
enum uw_average_pace { UW_AVERAGE_BY_PERIOD, UW_AVERAGE_HOLD, UW_AVERAGE_NOW };

/* When training hands over while no round is under way: when it is due, never, or at once. */
enum uw_average_turn { UW_AVERAGE_WHEN_DUE, UW_AVERAGE_UNCALLED, UW_AVERAGE_CALLED };

struct uw_average {
    struct uw_gossip *gossip;       /* its configuration, snapshot and progress are used */
    float *spare;                   /* [size_n] for rules without before and after, [2 size_n] for
                                       rules over pairs; else NULL */
    float *inbox;                   /* [size_n] to be added to x when offered; or NULL */
    bool copies;                    /* the copy for an abort is in spare */
    bool alike;                     /* training, before asked: the device has the values of x */
    bool measured;                  /* training, before asked: the gossip's rms is that of x */
    bool settled;                   /* network, before ended: the device has the average */
    bool unequal;                   /* network, before ended: cell.h */

    /* shared: named after the thread that writes */
    atomic_uint_least32_t asked, asked_scope;   /* training: the round that is handed over */
    atomic_uint_least32_t recalled;             /* training: the round to be returned soon */
    atomic_uint_least32_t ended, ended_how;     /* network */

    atomic_uint_least32_t drift;                /* training: a float; uw_average_drift */
    atomic_bool offered;                        /* network sets it, training clears it */
    atomic_bool retreat;                        /* network: no more pairs */
    atomic_uint_least32_t turn;                 /* network: enum uw_average_turn */
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
    bool fresh;                     /* no step since the last average */
    bool ruled;                     /* the rule is applied in this round */
    bool follows;                   /* the drift is measured */
    bool added;                     /* the inbox was added in this round */
    bool lent;                      /* x was lent in this round */
};

/* spare: as above; may be NULL */
void uw_average_init(struct uw_average *a, struct uw_gossip *gossip, float *spare);

/* Training. See uw_node_after_step. */
int uw_average_after_step(struct uw_average *a, const struct uw_node_progress *p);

/* Training, while the network thread does not run. See uw_node_touches. */
bool uw_average_touches(const struct uw_average *a);

/* Training. Make the next call of uw_average_after_step, or of the gossip's, begin one average over
 * the whole run, at any learning rate. */
void uw_average_agree(struct uw_average *a);

/* Training. Request the parameters back: the round is given up unless it is about to end. */
void uw_average_recall(struct uw_average *a);

/* Network. Change to quasi-global momentum; training does so between two rounds. */
void uw_average_retreat(struct uw_average *a);

/* Network. Effect of averages on the loss of this node's samples: ln(loss after / loss before), a
 * mean over the last rounds. At most 0 if all nodes have samples of one distribution; large if not,
 * when local steps drift apart. 0 while not known. */
float uw_average_drift(const struct uw_average *a);

/* Network. Has training requested the current round back? */
bool uw_average_recalled(const struct uw_average *a);

/* Network. The round that was handed over, once; 0: none. */
uint32_t uw_average_next_round(struct uw_average *a, enum uw_average_scope *scope);

/* Network, between next_round and ended. Hand the parameters back until they are called for. */
void uw_average_lend(struct uw_average *a);

/* Network, while training has the parameters that were lent: let it hand them over after its next
 * step, not before the next call, or when its next round is due. */
void uw_average_call(struct uw_average *a, enum uw_average_turn turn);

/* Network. Let training add inbox to x, and clear it, after the next local step: a cell of one node
 * does not wait for a round. */
void uw_average_offer(struct uw_average *a);

/* Network, while training waits. Withdraw an offer. Returns whether it was still open. */
bool uw_average_keep(struct uw_average *a);

/* Network. Is an offer open? */
bool uw_average_offers(const struct uw_average *a);

/* Network, between next_round and ended. The parameters that were handed over; and restore them. */
const float *uw_average_own(const struct uw_average *a);
void uw_average_restore(struct uw_average *a);

/* Network. Hand the parameters back. After a pair the mean is in spare. */
void uw_average_ended(struct uw_average *a, enum uw_average_end how);

#endif
