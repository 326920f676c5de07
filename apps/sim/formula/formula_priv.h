/* SPDX-License-Identifier: Apache-2.0
 *
 * formula_inner.h - what the files of the formula model share
 *
 *     formula_open.c      set-up
 *     formula.c           the clock
 *     formula_gossip.c    snapshots and pulls
 *     formula_average.c   exact averages, pairs, what passes between cells
 *     formula_world.c     the model behind sim_world.h
 */
#ifndef UW_SIM_FORMULA_INNER_H
#define UW_SIM_FORMULA_INNER_H

#include "formula.h"

#define UW_FORMULA_NONE UINT32_MAX          /* no snapshot, no device */

#define UW_FORMULA_SECONDS_MAX 1e9          /* 30 years: sums of thousands fit the clock */

/* Seconds of virtual time, to the nearest microsecond; not more than can be added up. */
static inline uint64_t uw_formula_us(double seconds)
{
    return (uint64_t)((seconds < UW_FORMULA_SECONDS_MAX ? seconds : UW_FORMULA_SECONDS_MAX) * 1e6 +
                      0.5);
}

/* The alarms: of a group's or a pair's average, of a node's step, of its pull. */
static inline uint32_t uw_formula_end_alarm(uint32_t i)
{
    return i;
}

static inline uint32_t uw_formula_step_alarm(const struct uw_formula *f, uint32_t place)
{
    return f->ends_n + place;
}

static inline uint32_t uw_formula_pull_alarm(const struct uw_formula *f, uint32_t place)
{
    return f->ends_n + f->nodes_n + place;
}

/* Set an alarm, UINT64_MAX: off, and keep count of those that keep the run going. */
void uw_formula_set(struct uw_formula *f, uint32_t alarm, uint64_t due_us);

/* Tell that an exchange of a node is done, now. peer UW_FORMULA_NONE: with several. */
void uw_formula_tell(struct uw_formula *f, enum uw_node_event_kind kind, uint32_t place,
                     uint32_t peer, uint32_t nodes_n, uint64_t took_us);

/* ---- snapshots ---- */

static inline float *uw_formula_vector(const struct uw_formula *f, uint32_t snapshot)
{
    return f->pool[snapshot];
}

/* Give one reference back, and set it to UW_FORMULA_NONE; of none: nothing. */
void uw_formula_drop(struct uw_formula *f, uint32_t *snapshot);

/* Show a node's parameters as they are. */
void uw_formula_publish(struct uw_formula *f, struct uw_formula_node *n);

/* Let two nodes with the same parameters show the same snapshot. */
void uw_formula_share(struct uw_formula *f, struct uw_formula_node *n,
                      const struct uw_formula_node *other);

/* ---- gossip ---- */

/* Ask a peer, whose answer's share is `weight`, for its parameters. */
void uw_formula_ask(struct uw_formula *f, struct uw_formula_node *n, uint32_t peer, float weight);

/* The alarm of a pull: the question has arrived, or the answer of another cell. */
void uw_formula_pull_due(struct uw_formula *f, struct uw_formula_node *n);

/* The partner of a node in its round; UW_FORMULA_NONE: nobody. */
uint32_t uw_formula_pick(struct uw_formula *f, struct uw_formula_node *n, float *weight);

/* What gossip does after a local step. Returns a set of enum uw_node_after. */
int uw_formula_gossip_step(struct uw_formula *f, struct uw_formula_node *n, float lr);

/* ---- averages ---- */

/* What a node that averages does after a local step, or after a wait. */
int uw_formula_average_step(struct uw_formula *f, struct uw_formula_node *n, float lr);

/* What a node waited for has been mixed in: it may look now, and gets these flags. */
void uw_formula_wake(struct uw_formula *f, struct uw_formula_node *n, int flags);

/* The alarm of an average: it is there. */
void uw_formula_average_due(struct uw_formula *f, uint32_t alarm);

/* A node does no more: averages go on without it. */
void uw_formula_end(struct uw_formula *f, struct uw_formula_node *n);

/* The first device of a cell looks whether it may pull from another cell. */
void uw_formula_bridge(struct uw_formula *f, struct uw_formula_node *n);

#endif
