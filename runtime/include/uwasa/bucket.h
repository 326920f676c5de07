/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/bucket.h - callbacks that average gradients over nodes, bucket by bucket
 *
 * A bucket is a range of layers whose gradients are complete at about the same time: one layer, or
 * as many as hold config.bucket_n floats; in plan mode full, all layers. Updates are
 *
 * immediate     m->bucket is called during backward; the update follows when it returns. Gradients
 *               live one bucket at a time.
 * deferred      config.late_updates. m->bucket_ready is called during backward, and backward goes
 *               on. The next forward pass calls m->bucket_wait before the first layer with
 *               parameters in the bucket, updates exactly that bucket, and computes the layer.
 *               Averaging overlaps with all computation in between; all gradients live. If both
 *               functions are NULL or change nothing, the bits are those of immediate updates.
 *
 * A step that fails, or that the spike guard skips, passes only some buckets or none. Nodes that
 * average every step then diverge unless they give their group up.
 *
 * Evaluation waits for pending updates. Other code that accesses parameters, gradients or the
 * optimizer's vectors must call uw_model_finish_updates first; uw_checkpoint_save fails while
 * updates are pending.
 *
 * Units      _n counts floats of the trained parameters: struct uw_segment's state_n
 * Memory     gradients are the model's
 * Blocking   until computed, or as long as the functions called
 * Context    the model's thread
 */
#ifndef UWASA_BUCKET_H
#define UWASA_BUCKET_H

#include "uwasa/cplusplus.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

struct uw_model;

/* Called during backward when gradients offset_n .. offset_n + count_n - 1 of the trained
 * parameters are complete. May change them, for example to the average over nodes; the update
 * follows. Returns UW_OK, or an error that stops the step. */
typedef int (*uw_bucket_fn)(void *arg, uint32_t offset_n, uint32_t count_n, float *gradient);

/* The same for deferred updates. Any thread may change the gradient until uw_bucket_wait_fn returns
 * for this bucket. Must not wait. Returns UW_OK, or an error that stops the step. */
typedef int (*uw_bucket_ready_fn)(void *arg, uint32_t bucket, uint32_t offset_n, uint32_t count_n,
                                  float *gradient);

/* Deferred updates: wait until the bucket's gradient is final. Returns UW_OK, UW_BUCKET_DROPPED
 * (averaging was given up: the model skips this bucket's update), or an error that stops the step;
 * the update then stays pending. */
typedef int (*uw_bucket_wait_fn)(void *arg, uint32_t bucket);
#define UW_BUCKET_DROPPED 1

/* A bucket of deferred updates, numbered in the order of the forward pass. */
struct uw_bucket {
    uint32_t offset_n, count_n;
    uint32_t layer;                 /* the first that needs it */
    uint32_t segments, segments_end;
    uint32_t ticket;                /* of the device's copy to the processor */
    bool pending;                   /* ready, not updated yet */
};

/* Wait for all pending updates and apply them, the lowest bucket first.
 * Returns UW_OK, what m->bucket_wait returned (that bucket and those above it stay pending), or
 * UW_ERR_NONFINITE (err names the gradient; that update is skipped, those above stay pending). */
int uw_model_finish_updates(struct uw_model *m, struct uw_error *err);

/* Is any update pending? */
bool uw_model_updates_pending(const struct uw_model *m);

UW_C_END
#endif
