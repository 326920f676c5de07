/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/between.h - a callback between the layers of a pass
 *
 * On a board with one thread the network would wait until a training step is over. The model calls
 * m->between, if set, after each layer: a message then waits for the longest layer at most.
 *
 * Blocking   allowed: the pass waits      Context  the model's thread
 */
#ifndef UWASA_BETWEEN_H
#define UWASA_BETWEEN_H

/* Called in training, uw_model_forward and uw_model_evaluate after
 *
 *   forward     each layer that computes, and each layer that is recomputed
 *   the losses  their forward and their backward half
 *   backward    a layer's gradient of its inputs, and that of its parameters with their update; one
 *               call if one kernel does both. With buckets (uwasa/bucket.h) also each tensor's
 *               update
 *
 * The callback may read parameters: every tensor has its value before or after this step's update.
 * With micro-batches, or with weight decay or momentum in plan mode immediate, a layer's tensors
 * may have intermediate values until its update is done. It may write a layer's parameters only
 * after their update in the backward pass. It must not call functions of the model. */
typedef void (*uw_between_fn)(void *arg);

#endif
