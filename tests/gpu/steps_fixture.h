/* SPDX-License-Identifier: Apache-2.0
 *
 * steps_fixture.h - a model on an open GPU and the same one beside it on the processor
 *
 * The part of test_steps.c that all its tests share. */
#ifndef UWASA_TEST_STEPS_FIXTURE_H
#define UWASA_TEST_STEPS_FIXTURE_H

#include "test_support.h"

#include "uwasa/backends.h"
#include "uwasa/cuda.h"
#include "uwasa/hash.h"
#include "uwasa/model.h"

#define BATCH 6u
#define NEAR 2e-4

static const struct uw_layer_def dense_layers[] = {
    {.name = "a", .kind = UW_LAYER_DENSE, .dense = {.out = 17}},
    {.name = "relu", .kind = UW_LAYER_RELU},
    {.name = "drop", .kind = UW_LAYER_DROPOUT, .dropout = {.rate = 0.25f}},
    {.name = "b", .kind = UW_LAYER_DENSE, .dense = {.out = 5}}};
static const struct uw_model_def dense_net = {.name = "dense", .in_channels = 11,
                                              .layers = dense_layers, .layers_n = 4};

static const struct uw_layer_def image_layers[] = {
    {.name = "c1", .kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 6, .kernel_h = 3,
                                                       .pad_h = 1, .pad_w = 1, .no_bias = true}},
    {.name = "n1", .kind = UW_LAYER_BATCHNORM},
    {.name = "r1", .kind = UW_LAYER_RELU},
    {.name = "dw", .kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 6, .kernel_h = 3,
                                                       .pad_h = 1, .pad_w = 1, .groups = 6}},
    {.name = "r2", .kind = UW_LAYER_RELU},
    {.name = "pool", .kind = UW_LAYER_MAXPOOL2D, .pool2d = {.kernel_h = 2, .stride_h = 2}},
    {.name = "flat", .kind = UW_LAYER_FLATTEN},
    {.name = "out", .kind = UW_LAYER_DENSE, .dense = {.out = 4}}};
static const struct uw_model_def image_net = {.name = "image", .in_channels = 2, .in_h = 8,
                                              .in_w = 8, .layers = image_layers, .layers_n = 8};

/* A model on the GPU, or on the processor with gpu NULL. */
struct side {
    struct uw_cuda *gpu;
    struct uw_model m;
    struct uw_model_config config;
    struct uw_model_need need;
    struct uw_arena arena, kernel_arena, shared_arena;
    void *workspace, *memory;
    struct uw_error err;
};

/* What the table says of biases, whatever was measured; NULL: as it is. */
static bool (*dense_apart)(const struct uw_kernels *k, const struct uw_dense *d, uint32_t batch_n);
static bool (*conv2d_apart)(const struct uw_kernels *k, const struct uw_conv2d *c,
                            uint32_t batch_n);
static struct uw_fused_kernels fused;

/* The handle is a program's own memory, and the table its first member. */
static void override_fused(struct uw_cuda *gpu)
{
    struct uw_kernels *k = (struct uw_kernels *)(void *)gpu;
    assert_ptr_equal(k, uw_cuda_kernels(gpu));
    fused = *k->fused;
    fused.dense_bias_apart = dense_apart;
    fused.conv2d_bias_apart = conv2d_apart;
    k->fused = &fused;
}

static void open_side(struct side *s, const struct uw_model_config *config, bool on_gpu)
{
    *s = (struct side){.config = *config};
    s->config.workspace_bytes = UW_MODEL_WORKSPACE_BYTES(config->def->layers_n);
    s->config.workspace = s->workspace = malloc(s->config.workspace_bytes);
    s->config.kernels = &uw_kernels_ref;
    if (on_gpu) {
        int rc = uw_cuda_open(&s->gpu, &(struct uw_cuda_config){.device = 0}, &s->err);
        if (rc < 0) {
            printf("skipped: %s\n", s->err.text);
            exit(77);
        }
        s->config.kernels = uw_cuda_kernels(s->gpu);
        if (dense_apart != NULL) {
            override_fused(s->gpu);
        }
        s->config.kernel_arena = &s->kernel_arena;
    }
    assert_int_equal(uw_model_measure(&s->config, &s->need, &s->err), UW_OK);
    s->memory = on_gpu ? NULL : malloc(s->need.total_bytes + uw_arena_slack_bytes());
    if (on_gpu) {
        void *at;
        s->config.shared_arena = &s->shared_arena;
        assert_int_equal(uw_cuda_take(s->gpu, UW_CUDA_PINNED, s->need.total_bytes, &at, &s->err),
                         UW_OK);
        uw_arena_init(&s->arena, at, s->need.total_bytes);
        assert_int_equal(uw_cuda_take(s->gpu, UW_CUDA_SHARED, s->need.shared_bytes, &at, &s->err),
                         UW_OK);
        uw_arena_init(&s->shared_arena, at, s->need.shared_bytes);
        assert_int_equal(uw_cuda_take(s->gpu, UW_CUDA_KERNELS, s->need.kernel_bytes, &at, &s->err),
                         UW_OK);
        uw_arena_init_foreign(&s->kernel_arena, at, s->need.kernel_bytes);
    } else {
        uw_arena_init(&s->arena, s->memory, s->need.total_bytes + uw_arena_slack_bytes());
    }
    assert_int_equal(uw_model_bind(&s->m, &s->config, &s->arena, &s->err), UW_OK);
    assert_int_equal(s->arena.used_bytes, s->need.total_bytes);
    assert_int_equal(s->kernel_arena.used_bytes, s->need.kernel_bytes);
    assert_int_equal(s->shared_arena.used_bytes, s->need.shared_bytes);
    uw_model_init_weights(&s->m, 7);
}

static void close_side(struct side *s)
{
    uw_cuda_close(s->gpu);
    free(s->memory);
    free(s->workspace);
}

static void fill(struct uw_model *m, uint32_t step, uint32_t n)
{
    struct uw_rng r;
    uw_rng_seed(&r, 100 + step);
    for (size_t i = 0; i < (size_t)n * m->input_n; i++) {
        m->input[i] = uw_rng_normal(&r);
    }
    for (uint32_t i = 0; i < n; i++) {
        m->label[i] = uw_rng_below(&r, m->classes);
    }
}

static uint32_t samples_of(uint32_t step)
{
    return step % 4 == 3 ? BATCH - 2 : BATCH; /* a last minibatch is smaller */
}

static float rate_of(uint32_t step)
{
    return 0.1f / (float)(1 + step);
}

static void begin(struct side *s, uint32_t step)
{
    uint32_t n = samples_of(step);
    fill(&s->m, step, n);
    s->m.optimizer.lr = rate_of(step);
    assert_int_equal(uw_model_step_begin(&s->m, &(struct uw_minibatch){.n = n}, &s->err), UW_OK);
}

static void assert_close(double a, double b)
{
    if (!(fabs(a - b) <= NEAR * (1.0 + fabs(b)))) {
        fail_msg("%.9g is not near %.9g", a, b);
    }
}

static void compare_parameters(struct side *gpu, struct side *cpu)
{
    assert_int_equal(uw_model_pull(&gpu->m), UW_OK);
    for (uint32_t i = 0; i < cpu->m.params.size_n; i++) {
        assert_close((double)gpu->m.params.x[i], (double)cpu->m.params.x[i]);
    }
    for (uint32_t i = 0; i < cpu->m.trainable_n && cpu->m.state[0] != NULL; i++) {
        assert_close((double)gpu->m.state[0][i], (double)cpu->m.state[0][i]);
    }
}

static void warm(struct side *s)
{
    assert_int_equal(uw_model_warm(&s->m, BATCH, &s->err), UW_OK);
    assert_int_equal(uw_model_warm(&s->m, BATCH - 2, &s->err), UW_OK);
    uw_model_init_weights(&s->m, 7);
}

static void compare(const struct uw_model_config *config, uint32_t steps)
{
    struct side gpu, cpu;
    struct uw_step_result a, b;
    open_side(&gpu, config, true);
    open_side(&cpu, config, false);
    warm(&gpu);
    warm(&cpu);
    size_t left = uw_cuda_free_bytes(gpu.gpu);
    uint32_t ended = 0;
    for (uint32_t step = 0; step < steps; step++) {
        begin(&gpu, step);
        while (uw_model_steps_free(&gpu.m) == 0 || (step + 1 == steps && ended < steps)) {
            begin(&cpu, ended);
            assert_int_equal(uw_model_step_end(&gpu.m, &a, &gpu.err), UW_OK);
            assert_int_equal(uw_model_step_end(&cpu.m, &b, &cpu.err), UW_OK);
            assert_close(a.loss, b.loss);
            assert_int_equal(a.correct_n, b.correct_n);
            ended++;
        }
    }
    compare_parameters(&gpu, &cpu);
    double loss[2] = {0.0, 0.0};
    uint32_t right[2] = {0, 0};
    for (int i = 0; i < 3; i++) { /* as it comes, recorded, played */
        fill(&gpu.m, 77, BATCH);
        fill(&cpu.m, 77, BATCH);
        const struct uw_minibatch b6 = {.n = BATCH};
        assert_int_equal(uw_model_evaluate(&gpu.m, &b6, &loss[0], &right[0]), UW_OK);
        assert_int_equal(uw_model_evaluate(&cpu.m, &b6, &loss[1], &right[1]), UW_OK);
    }
    assert_close(loss[0], loss[1]);
    assert_int_equal(right[0], right[1]);
    assert_int_equal(uw_cuda_free_bytes(gpu.gpu), left);
    const float *p, *q;
    assert_int_equal(uw_model_forward(&gpu.m, gpu.m.input, 3, &p), UW_OK);
    assert_int_equal(uw_model_forward(&cpu.m, cpu.m.input, 3, &q), UW_OK);
    for (uint32_t i = 0; i < 3 * cpu.m.classes; i++) {
        assert_close((double)p[i], (double)q[i]);
    }
    assert_true(uw_model_is_finite(&gpu.m));
    close_side(&gpu);
    close_side(&cpu);
}

#endif
