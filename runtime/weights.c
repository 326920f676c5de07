/* SPDX-License-Identifier: Apache-2.0 */
#include "graph.h"

#include "uwasa/fmath.h"
#include "uwasa/parts.h"

static void fill_normal(float *w, uint32_t n, float deviation, struct uw_rng *rng)
{
    for (uint32_t i = 0; i < n; i++) {
        w[i] = deviation * uw_rng_normal(rng);
    }
}

static void init_tensor(const struct uw_layer *l, uint32_t t, struct uw_rng *rng, float *w)
{
    struct uw_layer_tensor tensor = {0};

    l->ops->tensor(l, t, &tensor);
    uint32_t n = uw_tensor_size(&tensor);
    float fan_in = (float)tensor.fan_in;
    switch (tensor.init) {
    case UW_INIT_WEIGHT:
        fill_normal(w, n, uw_sqrtf(l->feeds_relu ? 2.0f / fan_in
                                             : 2.0f / (fan_in + (float)tensor.fan_out)), rng);
        break;
    case UW_INIT_NORMAL:
        fill_normal(w, n, 1.0f, rng);
        break;
    case UW_INIT_UNIFORM:
        for (uint32_t i = 0; i < n; i++) {
            w[i] = (2.0f * uw_rng_uniform(rng) - 1.0f) / uw_sqrtf(fan_in);
        }
        break;
    case UW_INIT_ZERO:
    case UW_INIT_ONE:
        for (uint32_t i = 0; i < n; i++) {
            w[i] = tensor.init == UW_INIT_ONE ? 1.0f : 0.0f;
        }
        break;
    }
}

/* Where the processor has a tensor. */
static float *image_of(const struct uw_model *m, const struct uw_layer *l, uint32_t t)
{
    return uw_device(m->config.kernels) == NULL
               ? l->param[t]
               : m->params.x + m->params.segments[l->segment + t].offset_n;
}

void uw_model_init_weights(struct uw_model *m, uint64_t seed)
{
    uint32_t tensors = 0;
    m->seed = seed;
    for (uint32_t i = 0; i < m->buckets_n; i++) {
        m->buckets[i].pending = false;
    }
    for (uint32_t i = 0; i < m->layers_n; i++) {
        const struct uw_layer *l = &m->layers[i];
        struct uw_rng rng;
        uw_rng_seed(&rng, uw_rng_mix(seed, tensors));
        tensors += l->tensors_n;
        for (uint32_t t = 0; t < l->tensors_n && !l->constant; t++) {
            init_tensor(l, t, &rng, image_of(m, l, t));
        }
        if (m->config.constants_n != 0 && !l->constant) {
            uw_parts.constants->copy(l, &m->config);
        }
    }
    if (uw_device(m->config.kernels) != NULL) {
        (void)uw_model_push(m); /* a device that fails says so in the first step */
    }
}
