/* SPDX-License-Identifier: Apache-2.0
 *
 * A bucket is a run of layers whose gradients stand at the end of the window m->gradients, the
 * topmost layer last. Plan mode full is one bucket for everything; immediate is one bucket a
 * layer, or no bucket at all where the update can be fused into bw_param. With late updates the
 * window holds all gradients, see late.c. */
#include "step.h"

#include "uwasa/fmath.h"

#include <math.h>
#include <string.h>

bool uw_update_is_fused(const struct uw_optimizer *o)
{
    return o->kind == UW_OPTIMIZER_SGD && o->clip_tensor == 0.0f;
}

static bool is_fused(const struct uw_model *m)
{
    return m->config.mode == UW_PLAN_IMMEDIATE && uw_update_is_fused(&m->config.optimizer);
}

uint32_t uw_layer_trained_n(const struct uw_layer *l)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < l->tensors_n; t++) {
        struct uw_layer_tensor tensor = {0};
        if ((l->trained & 1u << t) != 0) {
            l->ops->tensor(l, t, &tensor);
            n += uw_tensor_size(&tensor);
        }
    }
    return n;
}

uint32_t uw_update_bucket_size(const struct uw_model_config *config)
{
    switch (config->mode) {
    case UW_PLAN_FULL:
        return UINT32_MAX;
    case UW_PLAN_BUCKETS:
        return config->bucket_n;
    default:
        return 0;
    }
}

uint32_t uw_update_window(const struct uw_model_config *config, const struct uw_layer *layers,
                          uint32_t layers_n)
{
    uint32_t most = 0, n = 0;
    if (config->mode == UW_PLAN_IMMEDIATE && uw_update_is_fused(&config->optimizer)) {
        return 0;
    }
    for (uint32_t i = layers_n; i-- > 0;) {
        n += uw_layer_trained_n(&layers[i]);
        most = n > most ? n : most;
        n = !config->late_updates && n >= uw_update_bucket_size(config) ? 0 : n;
    }
    return most;
}

static struct uw_sgd sgd_of(const struct uw_optimizer *o)
{
    return (struct uw_sgd){.lr = o->lr, .momentum = o->momentum, .weight_decay = o->weight_decay,
                           .nesterov = o->nesterov, .frozen = o->frozen};
}

/* SGD's velocity of a segment; NULL: none. */
static float *velocity_of(const struct uw_model *m, const struct uw_optimizer *o,
                          const struct uw_segment *s)
{
    if (o->frozen) {
        return m->velocity != NULL ? m->velocity + s->offset_n : NULL;
    }
    return m->state[0] != NULL ? m->state[0] + s->state_n : NULL;
}

/* What has to happen to w and v so that accumulating scale * gradient into the returned target,
 * followed by finish_fused, is one step of SGD. */
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
        /* w -= lr (g' + momentum v') with g' = v' - momentum v needs the old v only here. */
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
           l->lora_rank == 0 && l->trained == all;
}

int uw_update_with_input(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                         const float *const *x, float *dx, bool accumulate)
{
    const struct uw_optimizer *o = &u->m->optimizer;
    float keep = u->first ? 1.0f - o->lr * o->weight_decay : 1.0f;
    return l->ops->bw_step(&u->m->exec, l, p, x, dx, accumulate, keep, -o->lr, l->param);
}

static float or_default(float value, float otherwise)
{
    return value != 0.0f ? value : otherwise;
}

static int update_segment(struct uw_model *m, const struct uw_segment *s,
                          const struct uw_optimizer *o, uint64_t updates, const float *g)
{
    const struct uw_update_kernels *k = m->config.kernels->update;
    float *w = m->params.x + s->offset_n;
    float *first = m->state[0] != NULL ? m->state[0] + s->state_n : NULL;
    float *second = m->state[1] != NULL ? m->state[1] + s->state_n : NULL;
    float epsilon = or_default(o->epsilon, 1e-8f);

    if (o->kind == UW_OPTIMIZER_SGD) {
        const struct uw_sgd sgd = sgd_of(o);
        return m->config.kernels->sgd_update(&m->exec, s->size_n, &sgd, g, w,
                                             velocity_of(m, o, s));
    }
    if (o->kind == UW_OPTIMIZER_RMSPROP) {
        const struct uw_rmsprop r = {.lr = o->lr, .alpha = or_default(o->alpha, 0.99f),
                                     .epsilon = epsilon, .weight_decay = o->weight_decay,
                                     .momentum = o->momentum};
        return k->rmsprop(&m->exec, s->size_n, &r, g, w, first, second);
    }
    struct uw_adam a = {.lr = o->lr, .beta1 = or_default(o->beta1, 0.9f),
                        .beta2 = or_default(o->beta2, 0.999f), .epsilon = epsilon,
                        .weight_decay = o->weight_decay,
                        .decoupled = o->kind == UW_OPTIMIZER_ADAMW};
    a.correction1 = (float)(1.0 - uw_power((double)a.beta1, updates + 1));
    a.correction2 = (float)(1.0 - uw_power((double)a.beta2, updates + 1));
    return k->adam(&m->exec, s->size_n, &a, g, w, first, second);
}

/* PyTorch's clip_grad_norm_: g *= most / (norm + 1e-6) when that is below 1. */
static int clip(const struct uw_exec *e, float most, double norm_sq, size_t n, float *g)
{
    double factor = (double)most / (sqrt(norm_sq) + 1e-6);
    return factor < 1.0 ? e->kernels->axpby(e, n, 0.0f, g, (float)factor, g) : UW_OK;
}

/* Gradient of a trained segment that is in the bucket. */
static float *gradient_of(const struct uw_update *u, const struct uw_segment *s)
{
    struct uw_model *m = u->m;
    return m->gradients + (m->gradients_n - (u->top - s->state_n));
}

static int check_gradients(const struct uw_model *m, const struct uw_gradients *all,
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

int uw_update_apply(struct uw_model *m, const struct uw_gradients *all,
                    const struct uw_optimizer *o, uint64_t updates, struct uw_error *err)
{
    int rc = check_gradients(m, all, err);
    if (rc == UW_OK && o->clip_global != 0.0f) {
        double norm_sq = m->config.kernels->distance_sq(&m->exec, all->count, all->g, NULL);
        rc = clip(&m->exec, o->clip_global, norm_sq, all->count, all->g);
    }
    for (uint32_t i = all->segments; i < all->segments_end && rc == UW_OK; i++) {
        const struct uw_segment *s = &m->params.segments[i];
        if (s->state_n == UINT32_MAX) {
            continue;
        }
        float *g = all->g + (s->state_n - all->offset);
        if (o->clip_tensor != 0.0f) {
            double norm_sq = m->config.kernels->distance_sq(&m->exec, s->size_n, g, NULL);
            rc = clip(&m->exec, o->clip_tensor, norm_sq, s->size_n, g);
        }
        rc = rc < 0 ? rc : update_segment(m, s, o, updates, g);
        uw_step_between(m);
    }
    return rc;
}

/* The bucket is complete: clip and update what is in it. */
static int flush(struct uw_update *u, uint32_t row, uint32_t low_segment, uint32_t high_segment)
{
    struct uw_model *m = u->m;
    uint32_t count = u->top - u->low;
    const struct uw_gradients all = {.segments = low_segment, .segments_end = high_segment,
                                     .offset = u->low, .count = count,
                                     .g = m->gradients + (m->gradients_n - count)};
    uint64_t since_us = uw_profile_start(m);
    int rc = UW_OK;

    if (m->bucket != NULL) {
        rc = m->bucket(m->bucket_arg, u->low, count, all.g);
        uw_profile_span(m, row, UW_PROFILE_WAIT, since_us);
        since_us = uw_profile_start(m);
    }
    rc = rc < 0 ? rc : uw_update_apply(m, &all, &m->optimizer, m->updates, u->err);
    uw_profile_span(m, row, UW_PROFILE_UPDATE, since_us);
    return rc;
}

static int update_bucket(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                         const float *const *x)
{
    struct uw_model *m = u->m;
    float *target[UW_LAYER_TENSORS_MAX] = {NULL};
    uint32_t end = l->segment + l->tensors_n;
    bool late = m->buckets_n > 0;

    if (u->low == u->top) {
        u->high_segment = end;
        for (uint32_t t = 0; t < l->tensors_n; t++) {
            const struct uw_segment *s = &m->params.segments[l->segment + t];
            u->top = s->state_n != UINT32_MAX ? s->state_n + s->size_n : u->top;
        }
        u->low = u->top;
    }
    u->low -= uw_layer_trained_n(l);
    for (uint32_t t = 0; t < l->tensors_n; t++) {
        const struct uw_segment *s = &m->params.segments[l->segment + t];
        if (s->state_n != UINT32_MAX) {
            target[t] = late ? m->gradients + s->state_n : gradient_of(u, s);
            if (u->first) {
                memset(target[t], 0, (size_t)s->size_n * sizeof(float));
            }
        }
    }
    int rc = l->ops->bw_param(&m->exec, l, p, x, 1.0f, target);
    if (rc < 0) {
        return rc;
    }
    if (late) {
        bool lowest = m->buckets[l->bucket].layer == l->index;
        return lowest && u->last ? uw_update_hand_out(m, l->bucket) : UW_OK;
    }
    bool complete = u->top - u->low >= uw_update_bucket_size(&m->config);
    if (complete && u->last) {
        uw_step_between(m);
        rc = flush(u, l->index, l->segment, u->high_segment);
        u->low = u->top;
    }
    return rc;
}

int uw_update_layer(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x)
{
    return is_fused(u->m) ? update_fused(u, l, p, x) : update_bucket(u, l, p, x);
}

int uw_update_finish(struct uw_update *u)
{
    bool complete = u->low != u->top && u->last && u->m->buckets_n == 0;
    int rc = complete ? flush(u, 0, 0, u->high_segment) : UW_OK;
    u->low = u->top; /* the next micro-batch begins at the top again */
    return rc;
}
