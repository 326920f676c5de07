/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that processor and GPU share, of every kind this machine has: it begins with zeros, both
 * see what the other writes, and a model whose region lies in it learns the same bits. */
#include "uwasa/backends.h"
#include "uwasa/model.h"
#include "uwasa/rng.h"
#include "uwasa/unified.h"

#include <stdio.h>
#include <string.h>

#define BATCH 4u
#define LAYERS 4u
#define STEPS 5u
#define ODD_BYTES (3u * 1024 * 1024 + 20)

static const struct uw_layer_def layers[LAYERS] = {
    {.kind = UW_LAYER_FLATTEN, .name = "f"},
    {.kind = UW_LAYER_DENSE, .name = "a", .dense = {.out = 12}},
    {.kind = UW_LAYER_RELU, .name = "r"},
    {.kind = UW_LAYER_DENSE, .name = "b", .dense = {.out = 3}}};
static const struct uw_model_def def = {"m", 1, 4, 4, layers, LAYERS};
static uint8_t workspace[UW_MODEL_WORKSPACE_BYTES(LAYERS)];
static _Alignas(64) uint8_t plain[65536];
static int failures;

static void expect(bool holds, const char *what, const char *more)
{
    if (!holds) {
        printf("FAILED: %s: %s\n", what, more);
        failures++;
    }
}

/* The weights after some steps in this memory. */
static void train(void *memory, size_t bytes, float *weights, size_t weights_bytes)
{
    struct uw_arena arena;
    struct uw_regions regions = {.region = {{"unified", &arena, bytes}}, .n = 1};
    struct uw_model_config config = {.def = &def, .kernels = &uw_kernels_ref, .batch_n = BATCH,
                                     .optimizer = {.lr = 0.1f, .momentum = 0.9f}, .input = true,
                                     .regions = &regions, .workspace = workspace,
                                     .workspace_bytes = sizeof workspace};
    struct uw_model_need need;
    struct uw_error err = {.text = ""};
    struct uw_model m;
    struct uw_rng rng;
    int rc = uw_model_measure(&config, &need, &err);
    rc = rc < 0 ? rc : uw_regions_place(&regions, &need, &err);
    uw_arena_init(&arena, memory, bytes);
    rc = rc < 0 ? rc : uw_model_bind(&m, &config, NULL, &err);
    expect(rc == UW_OK, "a model in this memory", err.text);
    if (rc < 0) {
        return;
    }
    uw_arena_seal(&arena);
    uw_model_init_weights(&m, 3);
    uw_rng_seed(&rng, 5);
    for (uint32_t i = 0; i < STEPS; i++) {
        struct uw_step_result result;
        for (uint32_t k = 0; k < BATCH * m.input_n; k++) {
            m.input[k] = uw_rng_normal(&rng);
        }
        for (uint32_t k = 0; k < BATCH; k++) {
            m.label[k] = uw_rng_below(&rng, m.classes);
        }
        rc = uw_model_train_step(&m, &(struct uw_minibatch){.n = BATCH}, &result, &err);
        expect(rc == UW_OK, "a step", err.text);
    }
    memset(weights, 0, weights_bytes);
    memcpy(weights, m.params.x, m.params.size_n * sizeof *weights);
}

static void check_kind(const struct uw_cuda_info *gpu, enum uw_cuda_pages want, const char *what)
{
    static float here[512], there[512];
    struct uw_unified m;
    struct uw_error err = {.text = ""};
    expect(uw_unified_take(gpu, ODD_BYTES, &m) == UW_OK, what, "take");
    if (m.base == NULL) {
        return;
    }
    const uint8_t *p = m.base;
    size_t zeros = 0;
    while (zeros < ODD_BYTES && p[zeros] == 0) {
        zeros++;
    }
    expect(zeros == ODD_BYTES && m.bytes == ODD_BYTES, what, "begins with zeros");
    expect(m.pages == want, what, uw_unified_pages_name(m.pages));
    expect((m.device != NULL) == (want != UW_CUDA_PAGES_NONE), what, "the GPU's address");
    int rc = uw_unified_check(&m, &err);
    expect(rc == (want == UW_CUDA_PAGES_NONE ? UW_ERR_UNSUPPORTED : UW_OK), what, err.text);
    memset(m.base, 0, m.bytes);
    train(plain, sizeof plain, here, sizeof here);
    train(m.base, m.bytes, there, sizeof there);
    expect(here[0] != 0.0f && memcmp(here, there, sizeof here) == 0, what, "the same bits");
    uw_unified_release(&m);
    expect(m.base == NULL, what, "released");
    uw_unified_release(&m);
    printf("%s: %s memory\n", what, uw_unified_pages_name(want));
}

int main(void)
{
    struct uw_cuda_info gpu;
    struct uw_error err = {.text = ""};
    int rc = uw_gpu_find(&gpu, &err);
    check_kind(NULL, UW_CUDA_PAGES_NONE, "no GPU asked for");
    if (rc < 0) {
        expect(rc == UW_ERR_NOTFOUND && strncmp(err.text, "no GPU: ", 8) == 0, "why", err.text);
        printf("%s\n", err.text);
        gpu.integrated = gpu.managed = gpu.concurrent = gpu.mapped = true;  /* it refuses all */
        check_kind(&gpu, UW_CUDA_PAGES_NONE, "a GPU that went away");
    } else {
        printf("%s, sm_%u%u\n", gpu.name, (unsigned)gpu.major, (unsigned)gpu.minor);
        bool managed = gpu.integrated && gpu.managed && gpu.concurrent;
        check_kind(&gpu, managed ? UW_CUDA_PAGES_MANAGED
                         : gpu.mapped ? UW_CUDA_PAGES_MAPPED : UW_CUDA_PAGES_NONE, "as it is");
        gpu.managed = false;
        check_kind(&gpu, gpu.mapped ? UW_CUDA_PAGES_MAPPED : UW_CUDA_PAGES_NONE, "not managed");
        gpu.mapped = false;
        check_kind(&gpu, UW_CUDA_PAGES_NONE, "not mapped either");
    }
    struct uw_unified huge;
    expect(uw_unified_take(rc < 0 ? NULL : &gpu, SIZE_MAX / 2, &huge) == UW_ERR_NOMEM, "huge",
           "is refused");
    uw_unified_release(&huge);
    return failures != 0;
}
