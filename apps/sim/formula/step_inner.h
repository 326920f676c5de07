/* SPDX-License-Identifier: Apache-2.0
 *
 * Between step_time.c and step_overlap.c: buckets, and the messages of an exchange. */
#ifndef UW_SIM_STEP_INNER_H
#define UW_SIM_STEP_INNER_H

#include "uwasa/sim_step_time.h"

struct uw_step_bucket {
    uint32_t layer, layers_end;     /* it holds the parameters of layer .. layers_end - 1 */
    uint32_t size_n;
};

/* What one step of an exchange puts on a line. */
struct uw_step_message {
    uint32_t n;
    bool adds;                      /* the receiver adds it to what it has */
};

struct uw_step_messages {
    struct uw_step_message *list;   /* [list_n] of the heap */
    uint32_t list_n;
    double sent_n;                  /* floats, the mean over the nodes */
    double seconds;                 /* of the exchange alone */
};

/* Fill buckets, numbered as forward comes to them.
 *   buckets  [layers_n]
 * Returns how many there are. */
uint32_t uw_step_buckets(const struct uw_step_config *c, struct uw_step_bucket *buckets);

/* What an exchange of n floats consists of, with more than one node. Release list.
 * Returns UW_OK or UW_ERR_NOMEM. */
int uw_step_messages(const struct uw_step_config *c, uint32_t n, struct uw_step_messages *m);

/* Seconds that products of a sample take for the minibatch. */
static inline double uw_step_compute_s(const struct uw_step_config *c, double products)
{
    return products * ((double)c->batch_n + c->half_batch_n) / c->macs_per_s;
}

/* Play steps with overlap. Returns UW_OK or UW_ERR_NOMEM. */
int uw_step_overlap(const struct uw_step_config *c, const struct uw_step_bucket *buckets,
                    uint32_t buckets_n, double *step_s);

#endif
