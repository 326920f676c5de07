/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_gradients.h - connects model and network in a node that averages the gradients of every step
 *
 * A bucket is sent as soon as the backward pass has computed it; the next forward pass waits for
 * each bucket when it needs it (uwasa/bucket.h, uwasa/node_gradients.h). An additional bucket holds
 * the learning rate, so that all members of a group use the same. When a group begins, the
 * optimizer's vectors are averaged once.
 *
 *     uw_node_gradients_open(r);          the model is bound; before the network is opened
 *     uw_node_gradients_prepare(r);       before a step
 *     uw_node_gradients_settle(r);        before uw_node_after_step
 *     uw_node_gradients_meet(r);          after a round of uw_node_after_step
 *     uw_node_gradients_finish(r);        before anything else reads the model
 *     uw_node_gradients_close(r);
 *
 * Everything but open does nothing if gradients are not averaged.
 *
 * Memory     a table on the heap      Blocking  until the network is done, at most until its own
 *            deadlines; a requested stop ends these
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
    bool grouped;                   /* in a group, as of the last uw_node_gradients_meet */
    bool lr_out, lr_back;           /* the step's learning rate was sent to average; came back */
};

/* Connect the model with the network. Returns UW_OK or UW_ERR_NOMEM, r->err filled. */
int uw_node_gradients_open(struct uw_node_work *r);

/* With a device, wait for the members' learning rate: a device reads it when a step begins, not
 * when its deferred updates are applied. */
void uw_node_gradients_prepare(struct uw_node_work *r);

/* Apply pending updates if the parameters may be needed now. Returns UW_OK or the update's error,
 * r->err filled. */
int uw_node_gradients_settle(struct uw_node_work *r);

/* If a group has begun: average the optimizer's vectors. Returns UW_OK, or UW_ERR_IO (the device
 * failed), r->err filled. */
int uw_node_gradients_meet(struct uw_node_work *r);

/* Apply pending updates. Returns UW_OK or the update's error, r->err filled. */
int uw_node_gradients_finish(struct uw_node_work *r);

/* Release the table. Safe when it was never opened, and twice. */
void uw_node_gradients_close(struct uw_node_work *r);

#endif
