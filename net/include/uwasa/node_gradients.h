/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_gradients.h - a node that averages the gradients of every step
 *
 * With uw_node_config.gradients the parameters are averaged only now and then. The ranks of such an
 * average then form a group, which averages the gradients of every step, bucket by bucket, during
 * the step (uwasa/bucket.h, deferred updates). Members that start from equal parameters and
 * optimizer state keep them equal, bit for bit. When a member dies, stalls, leaves or differs, or a
 * new node is ready, all members give the group up, each where it stands. The next average of the
 * parameters forms a new group and makes the models equal again.
 *
 *     rc = uw_node_after_step(...);                UW_NODE_ROUND: a group may have begun
 *     if (uw_node_grouped(&node)) { average the optimizer's vectors by ready and state, once }
 *     in backward     uw_node_gradient_ready(&node, bucket, gradient);
 *     in forward      uw_node_gradient_state(&node, bucket) until it is not UW_GRADIENT_RUNNING
 *     after the step  if (uw_node_wants_parameters(&node)) uw_model_finish_updates(...);
 *                     uw_node_after_step(...);
 *
 * Every member passes every bucket equally often. Running statistics have no gradients: they are
 * averaged with the parameters only.
 *
 * Units      _n floats
 * Memory     the node's arena; a gradient is lent from ready until its state is not RUNNING
 * Blocking   never      Context  training
 */
#ifndef UWASA_NODE_GRADIENTS_H
#define UWASA_NODE_GRADIENTS_H

#include "uwasa/cplusplus.h"
#include "uwasa/node.h"

UW_C_BEGIN

struct uw_node_gradients_config {
    const uint32_t *bucket_n;       /* [buckets_n] floats of each, borrowed until bind returns */
    uint32_t buckets_n;
    uint32_t tag;                   /* hash of what else must be equal, such as the optimizer: nodes
                                       with another tag form another cell */
    /* A fragment of a bucket begins or ends. Context network. (optional) */
    void (*trace)(void *arg, uint32_t bucket, uint32_t fragment, bool end, uint64_t now_us);
    void *arg;
};

enum uw_gradient_state {
    UW_GRADIENT_RUNNING,            /* the average is in progress */
    UW_GRADIENT_AVERAGED,
    UW_GRADIENT_DROPPED,            /* given up, content unspecified: skip the update */
    UW_GRADIENT_OWN                 /* no group: the gradient is unchanged */
};

/* Is this node in a group? Changes in uw_node_after_step and uw_node_wants_parameters only. */
bool uw_node_grouped(const struct uw_node *n);

/* Start the average of a bucket that is not running, then wake the network. Does nothing without a
 * group. */
void uw_node_gradient_ready(struct uw_node *n, uint32_t bucket, float *gradient);

/* State of a bucket since its last uw_node_gradient_ready. */
enum uw_gradient_state uw_node_gradient_state(const struct uw_node *n, uint32_t bucket);

/* Does the next uw_node_after_step access the parameters? If so, finish all deferred updates first.
 * Also checks whether the group was given up. False without uw_node_config.gradients. */
bool uw_node_wants_parameters(struct uw_node *n);

UW_C_END
#endif
