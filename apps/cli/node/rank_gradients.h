/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_gradients.h - a node whose every step is averaged: between the model and the network
 *
 * Buckets leave as backward makes them; the next forward pass waits for each before it needs it
 * (uwasa/bucket.h, uwasa/node_gradients.h). One bucket more holds the learning rate, so that all
 * members of a group take the same. When a group begins the optimizer's vectors are averaged once.
 *
 *     uw_node_gradients_open(r);          the model is bound; before the network is opened
 *     uw_node_gradients_prepare(r);       before a step
 *     uw_node_gradients_settle(r);        before uw_node_after_step
 *     uw_node_gradients_meet(r);          after a round of it
 *     uw_node_gradients_finish(r);        before anything else looks at the model
 *     uw_node_gradients_close(r);
 *
 * Everything but open does nothing when gradients are not averaged.
 *
 * Memory     a table of the heap      Blocking  until the network has done its part, at most its
 *            own deadlines; a stop that is asked for ends them
 * Context    the training thread
 */
#ifndef UWASA_CLI_RANK_GRADIENTS_H
#define UWASA_CLI_RANK_GRADIENTS_H

#include "uwasa/cuda_group.h"
#include "uwasa/node_gradients.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_GRADIENTS_BUCKET_N 2048u     /* floats of a bucket at least */

struct uw_node_work;

struct uw_gradients {
    struct uw_node_gradients_config config;
    uint32_t *bucket_n;             /* [config.buckets_n] of the heap, the first one holds lr */
    struct uw_cuda_group_part *parts;   /* [config.buckets_n] of the heap, for NCCL */
    float lr;
    bool grouped;                   /* as of the last meeting */
    bool lr_out, lr_back;           /* the step's learning rate is with the network; is here */
};

/* Connect the model with the network. Returns UW_OK or UW_ERR_NOMEM, r->err filled. */
int uw_node_gradients_open(struct uw_node_work *r);

/* A device takes the learning rate when a step begins, not when its deferred updates come: with
 * one, wait for the members' now. */
void uw_node_gradients_prepare(struct uw_node_work *r);

/* Do pending updates if the parameters may be needed now. Returns UW_OK or the update's error,
 * r->err filled. */
int uw_node_gradients_settle(struct uw_node_work *r);

/* If a group has begun: average the optimizer's vectors. Returns UW_OK, or UW_ERR_IO (the device
 * failed), r->err filled. */
int uw_node_gradients_meet(struct uw_node_work *r);

/* Do pending updates. Returns UW_OK or the update's error, r->err filled. */
int uw_node_gradients_finish(struct uw_node_work *r);

/* Release the table. Safe when it was never opened, and twice. */
void uw_node_gradients_close(struct uw_node_work *r);

#endif
