/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_gradients.h - a node that averages the gradients of every step
 *
 * With uw_node_config.gradients the exact average of the parameters comes only now and then: its
 * ranks are from then on a group that averages every step's gradients, bucket by bucket, while the
 * step goes on (uwasa/bucket.h, late updates). Who starts from equal parameters and optimizer state
 * then keeps them equal, bit for bit. When a member dies, stalls, leaves or differs, or somebody
 * new is ready, the group is given up by all its members, each where it stands; the next average of
 * the parameters makes it anew, and brings what has parted together.
 *
 *     rc = uw_node_after_step(...);                UW_NODE_ROUND: a group may have begun
 *     if (uw_node_grouped(&node)) { the optimizer's vectors, by ready and state: once a group }
 *     in backward     uw_node_gradient_ready(&node, bucket, gradient);
 *     in forward      uw_node_gradient_state(&node, bucket) until it is not UW_GRADIENT_RUNNING
 *     after the step  if (uw_node_wants_parameters(&node)) uw_model_finish_updates(...);
 *                     uw_node_after_step(...);
 *
 * Every member hands over every bucket equally often. Running statistics are no gradients: they are
 * averaged with the parameters only.
 *
 * Units      _n floats
 * Memory     the node's arena; a gradient is lent from ready until its state is another
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
    uint32_t tag;                   /* of what else must be equal, such as the optimizer: nodes of
                                       another tag are another cell */
    /* A fragment of a bucket begins or ends. Context network. (optional) */
    void (*trace)(void *arg, uint32_t bucket, uint32_t fragment, bool end, uint64_t now_us);
    void *arg;
};

enum uw_gradient_state {
    UW_GRADIENT_RUNNING,            /* the network has it */
    UW_GRADIENT_AVERAGED,
    UW_GRADIENT_DROPPED,            /* given up, its content is unspecified: leave the update out */
    UW_GRADIENT_OWN                 /* there is no group: it is as it was handed over */
};

/* Is this node in a group? Changes in uw_node_after_step and uw_node_wants_parameters only. */
bool uw_node_grouped(const struct uw_node *n);

/* Hand a bucket over; it is not running. Wake the network then. Without a group nothing is done. */
void uw_node_gradient_ready(struct uw_node *n, uint32_t bucket, float *gradient);

/* What has become of a bucket that was handed over. */
enum uw_gradient_state uw_node_gradient_state(const struct uw_node *n, uint32_t bucket);

/* Does the next uw_node_after_step touch the parameters? Then all updates have to be done before.
 * Looks whether the group has been given up. False without uw_node_config.gradients. */
bool uw_node_wants_parameters(struct uw_node *n);

UW_C_END
#endif
