/* SPDX-License-Identifier: Apache-2.0 */
#include "average.h"

#include "uwasa/fmath.h"

#include <float.h>
#include <string.h>

#define DRIFT_ROUNDS 16u            /* of which the drift is the mean */

void uw_average_init(struct uw_average *a, struct uw_gossip *gossip, float *spare)
{
    memset(a, 0, sizeof *a);
    a->gossip = gossip;
    a->spare = spare;
    a->pairs = gossip->config.rule->over == UW_MIX_OVER_PAIRS;
    a->copies = spare != NULL && !a->pairs;
    a->scope = a->next = a->pairs ? UW_AVERAGE_PAIR : UW_AVERAGE_CELL;
}

/* ---- network thread ---- */

uint32_t uw_average_next_round(struct uw_average *a, enum uw_average_scope *scope)
{
    uint32_t asked = (uint32_t)atomic_load_explicit(&a->asked, memory_order_acquire);
    if (asked == a->taken) {
        return 0;
    }
    a->taken = asked;
    a->settled = false;
    uw_average_call(a, UW_AVERAGE_WHEN_DUE);
    *scope = (enum uw_average_scope)atomic_load_explicit(&a->asked_scope, memory_order_relaxed);
    return asked;
}

bool uw_average_recalled(const struct uw_average *a)
{
    return a->taken != 0 &&
           (uint32_t)atomic_load_explicit(&a->recalled, memory_order_relaxed) == a->taken;
}

const float *uw_average_own(const struct uw_average *a)
{
    return a->copies ? a->spare : a->gossip->config.snapshot->data;
}

void uw_average_restore(struct uw_average *a)
{
    const struct uw_params *p = a->gossip->config.params;
    memcpy(p->x, uw_average_own(a), p->size_n * sizeof(float));
}

void uw_average_retreat(struct uw_average *a)
{
    atomic_store_explicit(&a->retreat, true, memory_order_relaxed);
}

void uw_average_offer(struct uw_average *a)
{
    atomic_store_explicit(&a->offered, true, memory_order_release);
}

bool uw_average_keep(struct uw_average *a)
{
    return atomic_exchange_explicit(&a->offered, false, memory_order_acquire);
}

bool uw_average_offers(const struct uw_average *a)
{
    return atomic_load_explicit(&a->offered, memory_order_acquire);
}

float uw_average_drift(const struct uw_average *a)
{
    return uw_load_float(&a->drift);
}

void uw_average_ended(struct uw_average *a, enum uw_average_end how)
{
    atomic_store_explicit(&a->ended_how, (uint32_t)how, memory_order_relaxed);
    atomic_store_explicit(&a->ended, a->taken, memory_order_release);
}

void uw_average_call(struct uw_average *a, enum uw_average_turn turn)
{
    atomic_store_explicit(&a->turn, (uint32_t)turn, memory_order_release);
}

void uw_average_lend(struct uw_average *a)
{
    uw_average_call(a, UW_AVERAGE_UNCALLED);
    uw_average_ended(a, UW_AVERAGE_LENT);
}

/* ---- training thread ---- */

static void begin_round(struct uw_average *a)
{
    a->steps = 0;
    a->lr_sum = 0.0f;
    a->state = UW_AVERAGE_TRAIN;
    a->ruled = a->added = a->lent = false;
    a->scope = a->next;
    a->next = a->pairs ? UW_AVERAGE_PAIR : UW_AVERAGE_CELL;
}

static void request_average(struct uw_average *a)
{
    a->state = UW_AVERAGE_WAIT;
    a->round++;
    a->alike = uw_image_is_alike(&a->gossip->image);
    a->measured = a->spare == NULL;
    uw_image_hold(&a->gossip->image);
    atomic_store_explicit(&a->asked_scope, (uint32_t)a->scope, memory_order_relaxed);
    atomic_store_explicit(&a->asked, a->round, memory_order_release);
}

/* Hand [x | z] over. A newcomer without a snapshot has no z: it trains its first round alone. */
static int hand_over_pair(struct uw_average *a, uint32_t step)
{
    const struct uw_gossip_config *c = &a->gossip->config;
    if (c->snapshot->version == 0) {
        if (uw_gossip_publish(a->gossip, step, true) == UW_OK) {
            begin_round(a);
        }
        return 0;
    }
    int rc = uw_image_fetch_all(&a->gossip->image);
    if (rc < 0) {
        return rc;
    }
    uw_mix_pair_vector(c->params, c->snapshot->data, a->lr_sum, a->spare);
    request_average(a);
    return UW_NODE_AVERAGING;
}

static float known(float loss)
{
    return loss > 0.0f && loss <= FLT_MAX ? loss : 0.0f;
}

/* Update the drift by the loss of the first step after an average. */
static void learn_drift(struct uw_average *a, float loss)
{
    a->fresh = false;
    if (a->last_loss == 0.0f || known(loss) == 0.0f) {
        return;
    }
    float is = uw_logf(loss / a->last_loss), was = uw_average_drift(a);
    is = is < UW_DRIFT_MAX ? is > -UW_DRIFT_MAX ? is : -UW_DRIFT_MAX : UW_DRIFT_MAX;
    a->drifts_n += a->drifts_n < DRIFT_ROUNDS ? 1u : 0u;
    uw_store_float(&a->drift, was + (is - was) / (float)a->drifts_n);
}

/* Add an offered inbox to x. The loss is that of x before. */
static bool take_offer(struct uw_average *a, float loss)
{
    if (a->inbox == NULL || !uw_average_offers(a) ||
        uw_image_fetch_all(&a->gossip->image) < 0) {
        return false;
    }
    const struct uw_params *p = a->gossip->config.params;
    uw_mix_carried(1.0f, p, 0, p->size_n, a->inbox);
    uw_image_changed(&a->gossip->image, 0, p->size_n);
    memset(a->inbox, 0, p->size_n * sizeof *a->inbox);
    atomic_store_explicit(&a->offered, false, memory_order_release);
    a->last_loss = known(loss);
    a->added = true;
    a->fresh = a->follows;
    return true;
}

/* Copy x and hand it over. Returns false when a reader holds the snapshot: try again. */
static bool hand_over(struct uw_average *a, uint32_t step)
{
    const struct uw_gossip_config *c = &a->gossip->config;
    if (uw_image_fetch_all(&a->gossip->image) < 0) {
        return false;
    }
    if (a->state == UW_AVERAGE_TRAIN) {
        a->state = UW_AVERAGE_FOLD;
        a->gossip->steps = a->steps;
        a->ruled = a->scope != UW_AVERAGE_RUN && a->lr_sum > 0.0f && c->snapshot->version != 0;
        if (a->ruled && !a->copies) {
            uw_mix_before(c->rule, &c->constants, c->params, c->snapshot->data, c->velocity,
                          a->lr_sum, a->gossip->recent);
            uw_image_velocity(&a->gossip->image);
        }
    }
    if (a->copies) {
        memcpy(a->spare, c->params->x, c->params->size_n * sizeof(float));
        uw_gossip_moves(a->gossip);
    } else if (uw_gossip_publish(a->gossip, step, true) < 0) {
        return false;
    }
    request_average(a);
    return true;
}

static void end_rule(struct uw_average *a, bool done)
{
    const struct uw_gossip_config *c = &a->gossip->config;
    if (a->scope == UW_AVERAGE_PAIR) {
        if (done) {
            uw_mix_pair(c->rule, a->weight, c->params, c->snapshot->data, a->spare, c->velocity,
                        a->lr_sum);
        }
    } else if (a->ruled && a->copies &&
               !(done && a->unequal && c->rule->over == UW_MIX_OVER_AVERAGES)) {
        uw_mix_end(c->rule, &c->constants, c->params, c->snapshot->data, c->velocity, a->lr_sum,
                   a->gossip->recent);
    } else if (a->ruled) {
        uw_mix_after(c->rule, &c->constants, c->params, c->velocity, a->lr_sum);
    }
}

/* The network has handed x back before the round. Rules with a copy are applied in the round; its
 * later steps do not count in L, by which outer momentum is multiplied. */
static int take_lent(struct uw_average *a)
{
    a->state = UW_AVERAGE_TRAIN;
    a->lent = true;
    uw_image_release(&a->gossip->image, false);
    if (a->ruled && !a->copies) {
        end_rule(a, false);
        uw_image_velocity(&a->gossip->image);
        uw_gossip_recall(a->gossip, false);
    }
    a->ruled = false;
    return 0;
}

/* The network has handed x back, averaged or restored. */
static int take_back(struct uw_average *a, uint32_t step)
{
    const struct uw_params *p = a->gossip->config.params;
    uint32_t how = (uint32_t)atomic_load_explicit(&a->ended_how, memory_order_relaxed);
    if (how == UW_AVERAGE_LENT) {
        return take_lent(a);
    }
    bool mixed = how == UW_AVERAGE_ALONE && a->added && a->scope != UW_AVERAGE_RUN;
    bool done = how == UW_AVERAGE_DONE || mixed;
    if (a->state == UW_AVERAGE_WAIT) {
        a->state = UW_AVERAGE_BACK;
        uw_image_release(&a->gossip->image,
                         (how == UW_AVERAGE_DONE && !a->settled) || (a->ruled && a->copies));
        if (how == UW_AVERAGE_DONE && uw_mix_settle(p)) {
            uw_image_changed(&a->gossip->image, 0, p->size_n);
        }
        end_rule(a, done);
        if (a->ruled || a->scope == UW_AVERAGE_PAIR) {
            uw_image_velocity(&a->gossip->image);
        }
        if (done || a->lr_sum > 0.0f) {
            uw_gossip_recall(a->gossip, done);
        }
        a->fresh = a->follows && (a->fresh || how == UW_AVERAGE_DONE);
        a->gossip->jumped = a->gossip->jumped || how == UW_AVERAGE_DONE;
        if (done) {
            uw_gossip_mixed_round(a->gossip);
        } else if (how == UW_AVERAGE_ALONE) {
            uw_gossip_settle(a->gossip);
        }
    }
    bool changed = how == UW_AVERAGE_DONE || a->spare != NULL;     /* else it is published */
    if (changed && uw_gossip_publish(a->gossip, step, !a->measured) < 0) {  /* try again */
        return UW_NODE_AVERAGING;
    }
    begin_round(a);
    return done ? UW_NODE_MIXED | UW_NODE_ROUND : 0;
}

/* Give up pairs and the tracked gradients. */
static int retreat(struct uw_average *a)
{
    const struct uw_gossip_config *c = &a->gossip->config;
    memset(c->velocity, 0, c->params->size_n * sizeof(float));
    uw_image_velocity(&a->gossip->image);
    uw_gossip_go_on(a->gossip, &uw_mix_qg);
    a->pairs = false;
    a->next = UW_AVERAGE_CELL;
    begin_round(a);
    return UW_NODE_RETREATED;
}

/* A newcomer looks for a model to take over, in rounds of gossip; true: it has found none, and what
 * it has trained is to be averaged. */
static bool look(struct uw_average *a, const struct uw_node_progress *p, int *flags)
{
    struct uw_gossip *g = a->gossip;
    *flags = uw_gossip_after_step(g, p);
    if (*flags >= 0 && g->state != UW_GOSSIP_RESTING && g->steps >= g->config.period_steps) {
        *flags |= UW_NODE_ADOPTING;     /* trains no further before the answer */
    }
    if (*flags < 0 || g->state != UW_GOSSIP_RESTING) {
        return false;
    }
    begin_round(a);
    if (atomic_load_explicit(&g->newcomer, memory_order_relaxed)) {
        a->steps = g->steps;
        a->lr_sum = g->lr_sum;
        return true;
    }
    return false;
}

static int start(struct uw_average *a, const struct uw_node_progress *p)
{
    struct uw_gossip *g = a->gossip;
    if (atomic_load_explicit(&g->newcomer, memory_order_relaxed)) {
        int flags = uw_gossip_after_step(g, p);
        a->state = flags >= 0 ? UW_AVERAGE_LOOK : UW_AVERAGE_START;
        return flags;
    }
    int rc = uw_gossip_publish(g, p->step, true);
    a->state = rc == UW_OK ? UW_AVERAGE_TRAIN : UW_AVERAGE_START;
    return rc == UW_ERR_AGAIN ? 0 : rc;
}

/* Does a round begin after so many steps? */
static bool is_due(const struct uw_average *a, uint32_t steps)
{
    uint32_t turn = (uint32_t)atomic_load_explicit(&a->turn, memory_order_acquire);
    return a->pace == UW_AVERAGE_NOW || turn == UW_AVERAGE_CALLED ||
           (turn == UW_AVERAGE_WHEN_DUE && a->pace == UW_AVERAGE_BY_PERIOD &&
            steps >= a->gossip->config.period_steps);
}

/* A retreat from pairs may follow any step. */
bool uw_average_touches(const struct uw_average *a)
{
    bool due = is_due(a, a->steps + 1u);
    return a->state != UW_AVERAGE_TRAIN || a->scope != UW_AVERAGE_CELL || a->fresh || due ||
           uw_average_offers(a);
}

int uw_average_after_step(struct uw_average *a, const struct uw_node_progress *p)
{
    struct uw_gossip *g = a->gossip;
    if (g->config.snapshot->data == NULL) {
        return UW_ERR_UNSUPPORTED;
    }
    uw_gossip_report(g, p);
    if (a->state == UW_AVERAGE_START) {
        return start(a, p);
    }
    if (a->state >= UW_AVERAGE_WAIT) {
        bool ended = atomic_load_explicit(&a->ended, memory_order_acquire) == a->round;
        return ended ? take_back(a, p->step) : UW_NODE_AVERAGING;
    }
    int flags = 0;
    if (a->scope == UW_AVERAGE_PAIR && a->state != UW_AVERAGE_LOOK &&
        atomic_load_explicit(&a->retreat, memory_order_relaxed)) {
        return retreat(a);
    }
    if (a->state == UW_AVERAGE_LOOK) {
        if (!look(a, p, &flags)) {
            return flags;
        }
    } else if (p->lr > 0.0f) {
        a->steps++;
        a->lr_sum += a->lent && a->copies ? 0.0f : p->lr;   /* see take_lent */
        if (a->fresh) {
            learn_drift(a, p->step_loss);
        }
        flags = take_offer(a, p->step_loss) ? UW_NODE_MIXED : 0;
    }
    if (!is_due(a, a->steps) && a->scope != UW_AVERAGE_RUN) {
        return flags;
    }
    a->last_loss = known(p->step_loss);
    if (a->scope == UW_AVERAGE_PAIR) {
        return hand_over_pair(a, p->step);
    }
    (void)hand_over(a, p->step);
    return UW_NODE_AVERAGING;
}

void uw_average_agree(struct uw_average *a)
{
    if (a->state >= UW_AVERAGE_WAIT) {
        a->next = UW_AVERAGE_RUN;
    } else {
        a->scope = UW_AVERAGE_RUN;
        a->state = a->state < UW_AVERAGE_TRAIN ? UW_AVERAGE_TRAIN : a->state;
    }
}

void uw_average_recall(struct uw_average *a)
{
    if (a->state >= UW_AVERAGE_WAIT) {
        atomic_store_explicit(&a->recalled, a->round, memory_order_relaxed);
    }
}
