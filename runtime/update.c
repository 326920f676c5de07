/* SPDX-License-Identifier: Apache-2.0
 *
 * In plan mode immediate with SGD the update is fused into bw_param, and gradients are not stored.
 * Otherwise gradients are gathered in buckets.
 *
 * A bucket is a run of layers. Their gradients are at the end of the window m->gradients, that of
 * the last layer at the very end. Plan mode full has one bucket for all layers, immediate one per
 * layer.
 *
 * Deferred updates: a gradient is handed out during the backward pass; the update follows when the
 * next forward pass needs the parameters. The window then holds all gradients, in the order of the
 * trained parameters. A training forward pass needs every trained layer, so no update is pending
 * when the next backward pass begins. */
#include "flight.h"

#include "layers/layer_shared.h"

#include "uwasa/fmath.h"
#include "uwasa/parts.h"

#include <math.h>

/* ---- fused ---- */

bool uw_update_gathers(const struct uw_model_config *config)
{
    const struct uw_optimizer *o = &config->optimizer;
    bool fused = uw_device(config->kernels) == NULL && config->mode == UW_PLAN_IMMEDIATE &&
                 o->kind == UW_OPTIMIZER_SGD && o->clip_tensor == 0.0f;
    return config->mode != UW_PLAN_INFERENCE && !fused;
}

static bool is_fused(const struct uw_model *m)
{
    return !uw_update_gathers(&m->config);
}

static struct uw_sgd sgd_of(const struct uw_optimizer *o)
{
    return (struct uw_sgd){.lr = o->lr, .momentum = o->momentum, .weight_decay = o->weight_decay,
                           .nesterov = o->nesterov, .frozen = o->frozen};
}

static float *velocity_of(const struct uw_model *m, const struct uw_optimizer *o,
                          const struct uw_segment *s)
{
    if (o->frozen) {
        return m->velocity != NULL ? uw_worked_by(m).velocity + s->offset_n : NULL;
    }
    return m->state[0] != NULL ? uw_worked_by(m).state[0] + s->state_n : NULL;
}

/* Prepare w and v so that accumulating scale * gradient into the returned target and then calling
 * finish_fused is one step of SGD. */
static int begin_fused(const struct uw_exec *e, const struct uw_sgd *s, size_t n, float *w,
                       float *v)
{
    const struct uw_kernels *k = e->kernels;
    float decay = 1.0f - s->lr * s->weight_decay;
    int rc = UW_OK;

    if (s->momentum == 0.0f) {
        return decay != 1.0f ? k->axpby(e, n, 0.0f, w, decay, w) : UW_OK;
    }
    if (s->frozen) {
        return k->axpby(e, n, -s->lr * s->momentum, v, decay, w);
    }
    if (s->nesterov) {
        /* w -= lr (g' + momentum v') with g' = v' - momentum v: the old v is needed only here. */
        rc = k->axpby(e, n, s->lr * s->momentum, v, 1.0f, w);
        if (rc == UW_OK) {
            return k->axpby(e, n, s->weight_decay, w, s->momentum * decay, v);
        }
        return rc;
    }
    return k->axpby(e, n, s->weight_decay, w, s->momentum, v);
}

static int finish_fused(const struct uw_exec *e, const struct uw_sgd *s, size_t n, float *w,
                        const float *v)
{
    if (s->momentum == 0.0f || s->frozen) {
        return UW_OK;
    }
    float lr = s->nesterov ? s->lr * (1.0f + s->momentum) : s->lr;
    return e->kernels->axpby(e, n, -lr, v, 1.0f, w);
}

static int update_fused(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                        const float *const *x)
{
    struct uw_model *m = u->m;
    const struct uw_sgd sgd = sgd_of(&m->optimizer);
    bool through_v = sgd.momentum != 0.0f && !sgd.frozen;
    float *target[UW_LAYER_TENSORS_MAX] = {NULL};
    int rc = UW_OK;

    for (uint32_t t = 0; t < l->tensors_n && rc == UW_OK; t++) {
        const struct uw_segment *s = &m->params.segments[l->segment + t];
        if ((l->trained & 1u << t) != 0) {
            float *v = velocity_of(m, &m->optimizer, s);
            target[t] = through_v ? v : l->param[t];
            rc = u->first ? begin_fused(&m->exec, &sgd, s->size_n, l->param[t], v) : UW_OK;
        }
    }
    if (rc == UW_OK) {
        rc = l->ops->bw_param(&m->exec, l, p, x, through_v ? 1.0f : -sgd.lr, target);
    }
    for (uint32_t t = 0; t < l->tensors_n && rc == UW_OK && u->last; t++) {
        const struct uw_segment *s = &m->params.segments[l->segment + t];
        if (target[t] != NULL) {
            rc = finish_fused(&m->exec, &sgd, s->size_n, l->param[t],
                              velocity_of(m, &m->optimizer, s));
        }
    }
    return rc;
}

bool uw_update_in_one_pass(const struct uw_update *u, const struct uw_layer *l)
{
    uint32_t all = (1u << l->tensors_n) - 1;
    return l->ops->bw_step != NULL && is_fused(u->m) && u->m->optimizer.momentum == 0.0f &&
           !l->lora && l->trained == all;
}

int uw_update_with_input(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                         const float *const *x, float *dx, bool accumulate)
{
    const struct uw_optimizer *o = &u->m->optimizer;
    float keep = u->first ? 1.0f - o->lr * o->weight_decay : 1.0f;
    return l->ops->bw_step(&u->m->exec, l, p, x, dx, accumulate, keep, -o->lr, l->param);
}

int uw_update_layer(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x)
{
    return is_fused(u->m) ? update_fused(u, l, p, x) : uw_parts.gathering->layer(u, l, p, x);
}

int uw_update_finish(struct uw_update *u)
{
    return is_fused(u->m) ? UW_OK : uw_parts.gathering->finish(u);
}

uint32_t uw_update_window(const struct uw_model_config *config, const struct uw_layer *layers,
                          uint32_t layers_n)
{
    return uw_update_gathers(config) ? uw_parts.gathering->window(config, layers, layers_n) : 0;
}

uint32_t uw_update_buckets(const struct uw_model_config *config, struct uw_layer *layers,
                           uint32_t layers_n, struct uw_bucket *buckets)
{
    return config->late_updates ? uw_parts.gathering->buckets(config, layers, layers_n, buckets)
                                : 0;
}

/* ---- gathered ---- */

#define DEVICE_BUCKET_N (1u << 18)  /* 1 MiB: one launch for many small layers */

/* A bucket is complete when it has so many floats. */
static uint32_t bucket_size(const struct uw_model_config *config)
{
    if (config->mode == UW_PLAN_IMMEDIATE && uw_device(config->kernels) != NULL) {
        return DEVICE_BUCKET_N;
    }
    switch (config->mode) {
    case UW_PLAN_FULL:
        return UINT32_MAX;
    case UW_PLAN_BUCKETS:
        return config->bucket_n;
    default:
        return 0;
    }
}

static uint32_t deferred_buckets(const struct uw_model_config *config, struct uw_layer *layers,
                             uint32_t layers_n, struct uw_bucket *buckets)
{
    uint32_t count = 0, n = 0, offset = 0;

    for (uint32_t i = layers_n; i-- > 0;) {
        uint32_t trained_n = uw_layer_trained_n(&layers[i]);
        if (trained_n > 0) {
            layers[i].bucket = (uint16_t)count; /* counted from the last layer */
            n += trained_n;
            count += n >= bucket_size(config) ? 1 : 0;
            n = n >= bucket_size(config) ? 0 : n;
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

static int hand_out_deferred(struct uw_model *m, uint32_t bucket)
{
    struct uw_bucket *b = &m->buckets[bucket];
    m->late_optimizer = m->optimizer;
    m->late_step = m->updates;
    b->pending = true;
    if (uw_device_of(m) != NULL) { /* bucket_ready is called when the whole step is queued */
        return m->bucket_ready != NULL ? uw_parts.on_device->fetch(m, bucket) : UW_OK;
    }
    return m->bucket_ready == NULL ? UW_OK
                                   : m->bucket_ready(m->bucket_arg, bucket, b->offset_n, b->count_n,
                                                     m->gradients + b->offset_n);
}

static uint32_t window(const struct uw_model_config *config, const struct uw_layer *layers,
                       uint32_t layers_n)
{
    uint32_t most = 0, n = 0;
    for (uint32_t i = layers_n; i-- > 0;) {
        n += uw_layer_trained_n(&layers[i]);
        most = n > most ? n : most;
        n = !config->late_updates && n >= bucket_size(config) ? 0 : n;
    }
    return most;
}

static float or_default(float value, float otherwise)
{
    return value != 0.0f ? value : otherwise;
}

UW_STEP_PART struct uw_adam uw_update_adam(const struct uw_optimizer *o, uint64_t updates)
{
    struct uw_adam a = {.lr = o->lr, .beta1 = or_default(o->beta1, 0.9f),
                        .beta2 = or_default(o->beta2, 0.999f),
                        .epsilon = or_default(o->epsilon, 1e-8f),
                        .weight_decay = o->weight_decay,
                        .decoupled = o->kind == UW_OPTIMIZER_ADAMW};
    a.correction1 = (float)(1.0 - uw_power((double)a.beta1, updates + 1));
    a.correction2 = (float)(1.0 - uw_power((double)a.beta2, updates + 1));
    return a;
}

/* Update n parameters: those of segment s, or on a device those of list_segments from s on. */
static int update_segment(struct uw_model *m, const struct uw_segment *s, size_t n,
                          const struct uw_optimizer *o, uint64_t updates, const float *g)
{
    const struct uw_update_kernels *k = m->config.kernels->update;
    float *w = uw_worked_by(m).x + s->offset_n;
    float *first = m->state[0] != NULL ? uw_worked_by(m).state[0] + s->state_n : NULL;
    float *second = m->state[1] != NULL ? uw_worked_by(m).state[1] + s->state_n : NULL;
    float epsilon = or_default(o->epsilon, 1e-8f);

    if (o->kind == UW_OPTIMIZER_SGD) {
        const struct uw_sgd sgd = sgd_of(o);
        return m->config.kernels->sgd_update(&m->exec, n, &sgd, g, w,
                                             velocity_of(m, o, s));
    }
    if (o->kind == UW_OPTIMIZER_RMSPROP) {
        const struct uw_rmsprop r = {.lr = o->lr, .alpha = or_default(o->alpha, 0.99f),
                                     .epsilon = epsilon, .weight_decay = o->weight_decay,
                                     .momentum = o->momentum};
        return k->rmsprop(&m->exec, n, &r, g, w, first, second);
    }
    const struct uw_adam a = uw_update_adam(o, updates);
    return k->adam(&m->exec, n, &a, g, w, first, second);
}

/* PyTorch's clip_grad_norm_: g *= most / (norm + 1e-6) when that is below 1. */
static int clip(const struct uw_exec *e, float most, size_t n, float *g)
{
    const struct uw_device_kernels *d = uw_device(e->kernels);
    if (d != NULL) {
        return d->clip(e, most, n, g);
    }
    double norm_sq = e->kernels->distance_sq(e, n, g, NULL);
    double factor = (double)most / (sqrt(norm_sq) + 1e-6);
    return factor < 1.0 ? e->kernels->axpby(e, n, 0.0f, g, (float)factor, g) : UW_OK;
}

/* Gradient, in the bucket, of a trained segment. */
static float *gradient_of(const struct uw_update *u, const struct uw_segment *s)
{
    struct uw_model *m = u->m;
    return m->gradients + (m->gradients_n - (u->top - s->state_n));
}

/* Complete gradients of the trained segments among segments .. segments_end - 1: g[count], from
 * trained parameter number `offset` on. */
struct gradients {
    uint32_t segments, segments_end;
    uint32_t offset, count;
    float *g;
};

static int check_gradients(const struct uw_model *m, const struct gradients *all,
                           struct uw_error *err)
{
    for (uint32_t i = all->segments; i < all->segments_end; i++) {
        const struct uw_segment *s = &m->params.segments[i];
        if (s->state_n != UINT32_MAX &&
            !m->config.kernels->all_finite(&m->exec, s->size_n,
                                           all->g + (s->state_n - all->offset))) {
            return uw_error_set(err, UW_ERR_NONFINITE, "the gradient of %s is NaN or infinite",
                                s->name);
        }
    }
    return UW_OK;
}

/* Tell a device which trained segments, from *i on, its next update is for, as many as it allows.
 * Moves *i past them. Returns their floats. */
static size_t list_segments(const struct uw_model *m, const struct gradients *all,
                            const struct uw_optimizer *o, uint32_t *i)
{
    struct uw_device_segment listed[UW_DEVICE_SEGMENTS_MAX];
    /* clip_tensor needs segments one by one; so does `frozen`, whose velocity is laid out as w. */
    uint32_t most = o->clip_tensor != 0.0f || o->frozen ? 1 : UW_DEVICE_SEGMENTS_MAX, n = 0;
    const struct uw_segment *first = &m->params.segments[*i];
    size_t sum = 0;

    for (; *i < all->segments_end && n < most; ++*i) {
        const struct uw_segment *s = &m->params.segments[*i];
        if (s->state_n != UINT32_MAX) {
            listed[n++] = (struct uw_device_segment){.index = *i,
                                                   .w_n = s->offset_n - first->offset_n,
                                                   .state_n = s->state_n - first->state_n,
                                                   .size_n = s->size_n};
            sum += s->size_n;
        }
    }
    uw_device_of(m)->segments(&m->exec, listed, n);
    return sum;
}

/* Clip and update; updates: steps done before this one. */
static int apply(struct uw_model *m, const struct gradients *all,
                 const struct uw_optimizer *o, uint64_t updates, struct uw_error *err)
{
    int rc = check_gradients(m, all, err);
    if (rc == UW_OK && o->clip_global != 0.0f) {
        rc = clip(&m->exec, o->clip_global, all->count, all->g);
    }
    for (uint32_t i = all->segments; i < all->segments_end && rc == UW_OK;) {
        const struct uw_segment *s = &m->params.segments[i];
        size_t n = s->size_n;
        if (s->state_n == UINT32_MAX) {
            i++;
            continue;
        }
        float *g = all->g + (s->state_n - all->offset);
        if (o->clip_tensor != 0.0f) {
            rc = clip(&m->exec, o->clip_tensor, s->size_n, g);
        }
        if (uw_device_of(m) != NULL) {
            n = list_segments(m, all, o, &i);
        } else {
            i++;
        }
        rc = rc < 0 ? rc : update_segment(m, s, n, o, updates, g);
        uw_step_between(m);
    }
    return rc;
}

static int update_deferred(struct uw_model *m, uint32_t bucket, struct uw_error *err)
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
    const struct gradients all = {.segments = b->segments, .segments_end = b->segments_end,
                                     .offset = b->offset_n, .count = b->count_n,
                                     .g = m->gradients + b->offset_n};
    if (uw_device_of(m) != NULL && m->bucket_ready != NULL) {
        rc = uw_parts.on_device->take_back(m, all.g, all.count);
    }
    rc = rc < 0 ? rc : apply(m, &all, &m->late_optimizer, m->late_step, err);
    uw_profile_lap(m, b->layer, UW_PROFILE_UPDATE, &since_us);
    return rc;
}

int uw_model_finish_updates(struct uw_model *m, struct uw_error *err)
{
    int rc = UW_OK;
    for (uint32_t i = 0; i < m->buckets_n && rc == UW_OK; i++) {
        rc = update_deferred(m, i, err);
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

static int hand_out(struct uw_model *m, uint32_t offset_n, uint32_t count_n, float *g)
{
    const struct uw_on_device *on = uw_device_of(m) != NULL ? uw_parts.on_device : NULL;
    float *out = g;
    int rc = on != NULL ? on->give(m, g, count_n, &out) : UW_OK;
    rc = rc < 0 ? rc : m->bucket(m->bucket_arg, offset_n, count_n, out);
    return rc < 0 || on == NULL ? rc : on->take_back(m, g, count_n);
}

/* The bucket is complete: clip and update what is in it. */
static int flush(struct uw_update *u, uint32_t row, uint32_t low_segment, uint32_t high_segment)
{
    struct uw_model *m = u->m;
    uint32_t count = u->top - u->low;
    const struct gradients all = {.segments = low_segment, .segments_end = high_segment,
                                     .offset = u->low, .count = count,
                                     .g = m->gradients + (m->gradients_n - count)};
    uint64_t since_us = uw_profile_start(m);
    int rc = UW_OK;

    if (m->bucket != NULL) {
        rc = hand_out(m, u->low, count, all.g);
        uw_profile_span(m, row, UW_PROFILE_WAIT, since_us);
        since_us = uw_profile_start(m);
    }
    rc = rc < 0 ? rc : apply(m, &all, &m->optimizer, m->updates, u->err);
    uw_profile_span(m, row, UW_PROFILE_UPDATE, since_us);
    return rc;
}

static int open_layer(struct uw_update *u, const struct uw_layer *l, float **target)
{
    struct uw_model *m = u->m;
    int rc = UW_OK;

    if (u->low == u->top) {
        u->high_segment = l->segment + l->tensors_n;
        for (uint32_t t = 0; t < l->tensors_n; t++) {
            const struct uw_segment *s = &m->params.segments[l->segment + t];
            u->top = s->state_n != UINT32_MAX ? s->state_n + s->size_n : u->top;
        }
        u->low = u->top;
        if (u->first && uw_device_of(m) != NULL) { /* one launch for the whole bucket */
            rc = uw_zero(&m->exec, m->gradients, (size_t)m->gradients_n * sizeof(float));
        }
    }
    u->low -= uw_layer_trained_n(l);
    for (uint32_t t = 0; t < l->tensors_n; t++) {
        const struct uw_segment *s = &m->params.segments[l->segment + t];
        if (s->state_n != UINT32_MAX) {
            target[t] = m->buckets_n > 0 ? m->gradients + s->state_n : gradient_of(u, s);
            if (u->first && uw_device_of(m) == NULL) {
                rc = rc < 0 ? rc
                            : uw_zero(&m->exec, target[t], (size_t)s->size_n * sizeof(float));
            }
        }
    }
    return rc;
}

static int gather_layer(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                         const float *const *x)
{
    struct uw_model *m = u->m;
    float *target[UW_LAYER_TENSORS_MAX] = {NULL};
    float *const *opened = uw_gradient_of(p);
    int rc = opened == NULL ? open_layer(u, l, target) : UW_OK;

    rc = rc < 0 ? rc
                : l->ops->bw_param(&m->exec, l, p, x, 1.0f, opened != NULL ? opened : target);
    if (rc < 0) {
        return rc;
    }
    if (m->buckets_n > 0) {
        bool lowest = m->buckets[l->bucket].layer == l->index;
        return lowest && u->last ? hand_out_deferred(m, l->bucket) : UW_OK;
    }
    bool complete = u->top - u->low >= bucket_size(&m->config);
    if (complete && u->last) {
        uw_step_between(m);
        rc = flush(u, l->index, l->segment, u->high_segment);
        u->low = u->top;
    }
    return rc;
}

static int finish(struct uw_update *u)
{
    bool complete = u->low != u->top && u->last && u->m->buckets_n == 0;
    int rc = complete ? flush(u, 0, 0, u->high_segment) : UW_OK;
    u->low = u->top; /* the next micro-batch begins at the last layer again */
    return rc;
}

/* Refuse combinations for which no plan gives exact gradients. */
static int check(const struct uw_model_config *config, const struct uw_graph *g,
                 struct uw_error *err)
{
    const struct uw_optimizer *o = &config->optimizer;
    bool micro = uw_draft_micro_n(config) < config->batch_n;
    bool accumulates = config->mode == UW_PLAN_FULL || config->late_updates ||
                       (!uw_update_gathers(config) &&
                        o->momentum != 0.0f && !o->nesterov && !o->frozen);

    if (config->late_updates && config->mode != UW_PLAN_BUCKETS && config->mode != UW_PLAN_FULL) {
        return uw_error_set(err, UW_ERR_INVALID, "deferred updates need plan mode buckets or full");
    }
    if (o->clip_global != 0.0f && config->mode != UW_PLAN_FULL) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "clipping by the global norm needs plan mode full");
    }
    if (micro && !accumulates) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "micro-batches need plan mode full, deferred updates, or immediate "
                            "with plain momentum");
    }
    for (uint32_t i = 0; i < g->layers_n && micro; i++) {
        if (g->layers[i].def->kind == UW_LAYER_BATCHNORM && !g->layers[i].def->frozen) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "layer '%s': batch norm needs the whole minibatch at once, "
                                "micro-batches would change its statistics",
                                g->layers[i].def->name);
        }
    }
    return UW_OK;
}

const struct uw_gathering uw_gathering = {
    .check = check,
    .window = window,
    .buckets = deferred_buckets,
    .open = open_layer,
    .layer = gather_layer,
    .finish = finish,
    .deferred = update_deferred,
};
