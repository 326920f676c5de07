/* SPDX-License-Identifier: Apache-2.0
 *
 * host_weights TABLE STEPS - train mlp on the digits as the board's program does by itself
 *
 * Prints the hash of the weights that its done event has, and the accuracy. Prints nothing, and
 * exits 0, where this processor has no such table of kernels. */
#include "uwasa/backends.h"
#include "uwasa/digits.h"
#include "uwasa/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 8u                        /* the firmware's defaults, with rule=none */
#define SEED 1u
#define LR 0.05f
#define TESTED 200u

static const struct uw_layer_def layers[] = {
    {.kind = UW_LAYER_FLATTEN, .name = "flatten"},
    {.kind = UW_LAYER_DENSE, .name = "fc1", .dense = {.out = 128}},
    {.kind = UW_LAYER_RELU, .name = "relu1"},
    {.kind = UW_LAYER_DENSE, .name = "fc2", .dense = {.out = 10}},
};
static const struct uw_model_def def = {.name = "mlp", .in_channels = 1, .in_h = 28, .in_w = 28,
                                        .layers = layers, .layers_n = 4};
static struct uw_model model;

static void check(int rc, const struct uw_error *err)
{
    if (rc < 0) {
        fprintf(stderr, "host_weights: %s\n", err->text);
        exit(1);
    }
}

static void open_model(const struct uw_kernels *kernels)
{
    struct uw_error err = {0};
    struct uw_model_need need;
    struct uw_arena arena;
    struct uw_model_config config = {
        .def = &def, .kernels = kernels, .batch_n = BATCH, .mode = UW_PLAN_IMMEDIATE,
        .optimizer = {.lr = LR}, .snapshot = true, .input = true};
    config.workspace_bytes = UW_MODEL_WORKSPACE_BYTES(def.layers_n);
    config.workspace = malloc(config.workspace_bytes);
    check(uw_model_measure(&config, &need, &err), &err);
    uw_arena_init(&arena, malloc(need.total_bytes + 64u), need.total_bytes + 64u);
    check(uw_model_bind(&model, &config, &arena, &err), &err);
    uw_model_init_weights(&model, SEED);
}

static void train(uint32_t steps)
{
    struct uw_error err = {0};
    struct uw_digits digits;
    struct uw_loader loader;
    struct uw_step_result result;
    check(uw_digits_init(&digits, &(struct uw_digits_config){.seed = SEED}), &err);
    const struct uw_loader_config c = {.dataset = &digits.base, .batch_n = BATCH, .seed = SEED};
    check(uw_loader_init(&loader, &c), &err);
    for (uint32_t i = 0; i < steps; i++) {
        int n = uw_loader_next(&loader, model.input, model.label, NULL);
        check(n, &err);
        check(uw_model_train_step(&model, &(struct uw_minibatch){.n = (uint32_t)n}, &result, &err),
              &err);
    }
}

static double accuracy(void)
{
    struct uw_error err = {0};
    struct uw_digits test;
    double loss = 0.0;
    uint32_t correct = 0;
    const struct uw_digits_config c = {.seed = 1, .test = true, .samples_n = TESTED};
    check(uw_digits_init(&test, &c), &err);
    for (uint32_t i = 0; i < TESTED; i += BATCH) {
        for (uint32_t k = 0; k < BATCH; k++) {
            (void)test.base.ops->read(&test.base, i + k, model.input + k * model.input_n,
                                      &model.label[k]);
        }
        check(uw_model_evaluate(&model, &(struct uw_minibatch){.n = BATCH}, &loss, &correct), &err);
    }
    return (double)correct / TESTED;
}

int main(int argc, char **argv)
{
    const struct uw_kernels *kernels = argc == 3 ? uw_kernels_find(argv[1]) : NULL;
    if (kernels == NULL) {
        return argc == 3 ? 0 : 2;
    }
    open_model(kernels);
    train((uint32_t)strtoul(argv[2], NULL, 10));
    uint64_t hash = 0xcbf29ce484222325u;        /* FNV-1a, as in the firmware's report.c */
    for (uint32_t i = 0; i < model.params.size_n; i++) {
        uint32_t bits;
        memcpy(&bits, &model.params.x[i], sizeof bits);
        for (uint32_t shift = 0; shift < 32u; shift += 8u) {
            hash = (hash ^ (bits >> shift & 0xffu)) * 0x100000001b3u;
        }
    }
    printf("%016llx %.4f\n", (unsigned long long)hash, accuracy());
    return 0;
}
