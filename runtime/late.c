/* SPDX-License-Identifier: Apache-2.0
 *
 * Late updates: a gradient is handed out during backward, and its update comes when the next
 * forward pass needs the parameters. All gradients live, each at its place among the trained
 * parameters; a forward pass that trains needs every trained layer, so none is pending when the
 * next backward pass begins. */
#include "flight.h"

#include "uwasa/parts.h"

uint32_t uw_late_buckets(const struct uw_model_config *config, struct uw_layer *layers,
                         uint32_t layers_n, struct uw_bucket *buckets)
{
    uint32_t count = 0, n = 0, offset = 0;

    for (uint32_t i = layers_n; i-- > 0;) {
        uint32_t trained_n = uw_layer_trained_n(&layers[i]);
        if (trained_n > 0) {
            layers[i].bucket = (uint16_t)count; /* from the top */
            n += trained_n;
            count += n >= uw_update_bucket_size(config) ? 1 : 0;
            n = n >= uw_update_bucket_size(config) ? 0 : n;
        }
    }
    count += n > 0 ? 1 : 0;
    for (uint32_t i = 0; i < layers_n && buckets != NULL; i++) {
        struct uw_layer *l = &layers[i];
        uint32_t trained_n = uw_layer_trained_n(l);
        if (trained_n > 0) {
            l->bucket = (uint16_t)(count - 1 - l->bucket);
            struct uw_bucket *b = &buckets[l->bucket];
            if (b->count_n == 0) {
                *b = (struct uw_bucket){.offset_n = offset, .layer = i, .segments = l->segment};
            }
            b->count_n += trained_n;
            b->segments_end = l->segment + l->tensors_n;
            offset += trained_n;
        }
    }
    return count;
}

int uw_late_hand_out(struct uw_model *m, uint32_t bucket)
{
    struct uw_bucket *b = &m->buckets[bucket];
    m->late_optimizer = m->optimizer;
    m->late_step = m->updates;
    b->pending = true;
    if (uw_device_of(m) != NULL) { /* bucket_ready comes when the whole step is in the queue */
        return m->bucket_ready != NULL ? uw_parts.on_device->fetch(m, bucket) : UW_OK;
    }
    return m->bucket_ready == NULL ? UW_OK
                                   : m->bucket_ready(m->bucket_arg, bucket, b->offset_n, b->count_n,
                                                     m->gradients + b->offset_n);
}

int uw_late_update(struct uw_model *m, uint32_t bucket, struct uw_error *err)
{
    struct uw_bucket *b = &m->buckets[bucket];
    int rc = UW_OK;

    if (!b->pending) {
        return UW_OK;
    }
    uint64_t since_us = uw_profile_start(m);
    if (m->bucket_wait != NULL) {
        rc = m->bucket_wait(m->bucket_arg, bucket);
        uw_profile_lap(m, b->layer, UW_PROFILE_WAIT, &since_us);
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "layer '%s': its averaged gradient: %s",
                            m->layers[b->layer].def->name, uw_status_text(rc));
    }
    b->pending = false;
    if (rc == UW_BUCKET_DROPPED) {
        return UW_OK;
    }
    const struct uw_gradients all = {.segments = b->segments, .segments_end = b->segments_end,
                                     .offset = b->offset_n, .count = b->count_n,
                                     .g = m->gradients + b->offset_n};
    if (uw_device_of(m) != NULL && m->bucket_ready != NULL) {
        rc = uw_parts.on_device->take_back(m, all.g, all.count);
    }
    rc = rc < 0 ? rc : uw_update_apply(m, &all, &m->late_optimizer, m->late_step, err);
    uw_profile_lap(m, b->layer, UW_PROFILE_UPDATE, &since_us);
    return rc;
}

int uw_model_finish_updates(struct uw_model *m, struct uw_error *err)
{
    int rc = UW_OK;
    for (uint32_t i = 0; i < m->buckets_n && rc == UW_OK; i++) {
        rc = uw_late_update(m, i, err);
    }
    return rc;
}

bool uw_model_updates_pending(const struct uw_model *m)
{
    bool pending = false;
    for (uint32_t i = 0; i < m->buckets_n && !pending; i++) {
        pending = m->buckets[i].pending;
    }
    return pending;
}
