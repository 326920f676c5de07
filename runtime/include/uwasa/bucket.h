/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/bucket.h - gradients handed out layer by layer, to be averaged over nodes
 *
 * A bucket is a run of layers whose gradients are complete at about the same time: one layer, or as
 * many as hold config.bucket_n floats; in plan mode full, all of them. There are two ways to hand
 * it out:
 *
 * At once       m->bucket is called during backward, the update follows when it returns. Gradients
 *               live one bucket at a time.
 * Late updates  config.late_updates. During backward m->bucket_ready is called, and backward goes
 *               on. The next forward pass calls m->bucket_wait before the first layer that has
 *               parameters in the bucket, updates exactly that bucket, and computes the layer. So
 *               averaging has all the time between, and all gradients live. With both functions
 *               NULL, or when nothing is changed meanwhile, the bits are those of updates at once.
 *
 * A step that fails, or that the spike guard leaves out, hands out only some buckets or none; nodes
 * that average every step then part, unless their group is given up.
 *
 * Evaluation waits by itself. Other code that reads or changes parameters, gradients or the
 * optimizer's vectors calls uw_model_finish_updates first; a checkpoint refuses while updates are
 * pending.
 *
 * Units      _n counts floats, those of the trained parameters: struct uw_segment's state_n
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
 * parameters (those not trained are not counted) are complete; may change them, for one by
 * averaging over nodes. The update follows. Returns UW_OK, or an error that stops the step. */
typedef int (*uw_bucket_fn)(void *arg, uint32_t offset_n, uint32_t count_n, float *gradient);

/* Late updates: the same, but the gradient may be changed, by any thread, until uw_bucket_wait_fn
 * has returned for this bucket. Does not wait. Returns UW_OK, or an error that stops the step. */
typedef int (*uw_bucket_ready_fn)(void *arg, uint32_t bucket, uint32_t offset_n, uint32_t count_n,
                                  float *gradient);

/* Late updates: return when the bucket's gradient is what the update takes. Returns UW_OK,
 * UW_BUCKET_DROPPED (leave this bucket's update out, averaging was given up), or an error that
 * stops the step; the update is then still pending. */
typedef int (*uw_bucket_wait_fn)(void *arg, uint32_t bucket);
#define UW_BUCKET_DROPPED 1

/* Late updates: buckets are numbered as the forward pass comes to them. */
struct uw_bucket {
    uint32_t offset_n, count_n;
    uint32_t layer;                 /* the first that needs it */
    uint32_t segments, segments_end;
    uint32_t ticket;                /* of the device's copy to the processor */
    bool pending;                   /* handed out, not updated yet */
};

/* Wait for all pending updates and do them, the lowest bucket first.
 * Returns UW_OK, what m->bucket_wait returned (that bucket and those above it stay pending), or
 * UW_ERR_NONFINITE (err names the gradient; that update is left out, those above stay pending). */
int uw_model_finish_updates(struct uw_model *m, struct uw_error *err);

/* Is there a bucket whose update is still to come? */
bool uw_model_updates_pending(const struct uw_model *m);

UW_C_END
#endif
