/* SPDX-License-Identifier: Apache-2.0
 *
 * A model in guarded memory of exactly the measured size, and short names for layers. */
#ifndef UWASA_TEST_MODEL_FIXTURE_H
#define UWASA_TEST_MODEL_FIXTURE_H

#include "uwasa/backends.h"
#include "uwasa/model.h"

struct fixture {
    struct uw_model m;
    struct uw_model_config config;
    struct uw_model_need need;
    struct uw_arena arena;
    void *workspace;
    void *memory;
    struct uw_error err;
};

/* Measure and bind f->config. */
static inline int open_config(struct fixture *f)
{
    f->config.workspace_bytes = UW_MODEL_WORKSPACE_BYTES(f->config.def->layers_n);
    f->workspace = uw_test_block(f->config.workspace_bytes);
    f->config.workspace = f->workspace;
    int rc = uw_model_measure(&f->config, &f->need, &f->err);
    if (rc < 0) {
        return rc;
    }
    f->memory = uw_test_block(f->need.total_bytes); /* guarded: one byte too many is caught */
    uw_arena_init(&f->arena, f->memory, f->need.total_bytes);
    rc = uw_model_bind(&f->m, &f->config, &f->arena, &f->err);
    assert_int_equal(rc, UW_OK);
    assert_int_equal(f->arena.used_bytes, f->need.total_bytes);
    uw_arena_seal(&f->arena);
    return UW_OK;
}

static inline int open_model(struct fixture *f, const struct uw_model_def *def, uint32_t batch_n,
                      enum uw_plan_mode mode, bool momentum)
{
    *f = (struct fixture){.config = {.def = def, .kernels = &uw_kernels_ref, .batch_n = batch_n,
                                     .mode = mode,
                                     .optimizer = {.momentum = momentum ? 0.9f : 0.0f}}};
    return open_config(f);
}

/* One step with another optimizer than before; config.mixing_velocity must suit. */
static inline int train_step(struct uw_model *m, const float *x, const uint32_t *label, uint32_t n,
                             const struct uw_optimizer *o, struct uw_step_result *result,
                             struct uw_error *err)
{
    m->optimizer = *o;
    return uw_model_train_step(m, &(struct uw_minibatch){.x = x, .label = label, .n = n}, result,
                               err);
}

static inline void close_model(struct fixture *f)
{
    uw_test_release(f->workspace);
    if (f->memory != NULL) {
        uw_test_release(f->memory);
    }
}

static inline void random_batch(struct uw_rng *r, const struct uw_model *m, uint32_t n, float *x,
                         uint32_t *label)
{
    const struct uw_layer_def *first = &m->config.def->layers[0];
    for (size_t i = 0; i < (size_t)n * m->input_n; i++) {
        x[i] = first->kind == UW_LAYER_EMBEDDING
                   ? (float)uw_rng_below(r, first->embedding.vocabulary)
                   : uw_rng_normal(r);
    }
    for (uint32_t i = 0; i < n; i++) {
        label[i] = uw_rng_below(r, m->classes);
    }
}

#define LAYERS(...) (const struct uw_layer_def[]){__VA_ARGS__}
#define CONV(n, co, k, s, p) {.kind = UW_LAYER_CONV2D, .name = n, \
    .conv2d = {.out_channels = co, .kernel_h = k, .stride_h = s, .pad_h = p, .pad_w = p}}
#define DENSE(n, o) {.kind = UW_LAYER_DENSE, .name = n, .dense = {.out = o}}
#define POOL(n, k, s, p) {.kind = UW_LAYER_MAXPOOL2D, .name = n, \
    .pool2d = {.kernel_h = k, .stride_h = s, .pad_h = p, .pad_w = p}}
#define RELU(n) {.kind = UW_LAYER_RELU, .name = n}
#define FLATTEN(n) {.kind = UW_LAYER_FLATTEN, .name = n}

#endif
