/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/between.h - what a program does between the layers of a pass
 *
 * A board has one thread: without help the network waits until a training step is over. With
 * m->between set, the model calls it whenever a layer has been computed, so that an answer is late
 * by no more than the longest layer.
 *
 * Blocking   as long as it likes: the pass waits      Context  the model's thread
 */
#ifndef UWASA_BETWEEN_H
#define UWASA_BETWEEN_H

/* Called in training, uw_model_forward and uw_model_evaluate after
 *
 *   forward     each layer that computes something, and each one that is computed again
 *   the losses  their forward and their backward half
 *   backward    a layer's gradient of its inputs, and that of its parameters with their update; one
 *               call where the two are one kernel. Where gradients are gathered (uwasa/bucket.h),
 *               each tensor's update too
 *
 * Parameters may be read: every tensor is as the last step left it or as this one makes it (with
 * micro-batches, or weight decay or momentum in plan mode immediate, a layer's tensors may be on
 * the way until its update is done). None may be written before its layer's update, forward none at
 * all, and no function of the model be called. */
typedef void (*uw_between_fn)(void *arg);

#endif
