/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan mode immediate with SGD: the update is fused into bw_param, and no gradient array lives.
 * Whatever gathers gradients is update_gathered.c's. */
#include "step.h"

#include "uwasa/parts.h"

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

struct uw_sgd uw_update_sgd(const struct uw_optimizer *o)
{
    return (struct uw_sgd){.lr = o->lr, .momentum = o->momentum, .weight_decay = o->weight_decay,
                           .nesterov = o->nesterov, .frozen = o->frozen};
}

float *uw_update_velocity(const struct uw_model *m, const struct uw_optimizer *o,
                          const struct uw_segment *s)
{
    if (o->frozen) {
        return m->velocity != NULL ? uw_worked_by(m).velocity + s->offset_n : NULL;
    }
    return m->state[0] != NULL ? uw_worked_by(m).state[0] + s->state_n : NULL;
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
    const struct uw_sgd sgd = uw_update_sgd(&m->optimizer);
    bool through_v = sgd.momentum != 0.0f && !sgd.frozen;
    float *target[UW_LAYER_TENSORS_MAX] = {NULL};
    int rc = UW_OK;

    for (uint32_t t = 0; t < l->tensors_n && rc == UW_OK; t++) {
        const struct uw_segment *s = &m->params.segments[l->segment + t];
        if ((l->trained & 1u << t) != 0) {
            float *v = uw_update_velocity(m, &m->optimizer, s);
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
                              uw_update_velocity(m, &m->optimizer, s));
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
