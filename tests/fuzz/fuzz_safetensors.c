/* SPDX-License-Identifier: Apache-2.0
 *
 * A damaged checkpoint is refused with a sentence and leaves the model as it was, or it is read
 * and holds finite numbers; nothing else. */
#include "fuzz.h"

#include "unit/memory_storage.h"

#include "uwasa/backends.h"
#include "uwasa/checkpoint.h"

static const struct uw_layer_def layers[] = {
    {.kind = UW_LAYER_DENSE, .name = "a", .dense = {.out = 3}},
    {.kind = UW_LAYER_RELU, .name = "r"},
    {.kind = UW_LAYER_DENSE, .name = "b", .dense = {.out = 2, .no_bias = true}},
};
static const struct uw_model_def def = {
    .name = "fuzzed", .in_channels = 2, .layers = layers, .layers_n = 3};

static int bind_model(struct uw_model *m, uint32_t lora_rank)
{
    static uint8_t workspace[UW_MODEL_WORKSPACE_BYTES(3)];
    static uint8_t memory[16384];
    struct uw_arena arena;
    struct uw_model_config config = {.def = &def, .kernels = &uw_kernels_ref, .batch_n = 1,
                                     .optimizer = {.momentum = 0.9f},
                                     .adapt = {.lora_rank = lora_rank}, .workspace = workspace,
                                     .workspace_bytes = sizeof workspace};
    uw_arena_init(&arena, memory, sizeof memory);
    int rc = uw_model_bind(m, &config, &arena, NULL);
    uw_model_init_weights(m, 1);
    return rc;
}

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const char foreign[] =
        "\x65\0\0\0\0\0\0\0{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],"
        "\"data_offsets\":[0,24]},\"__metadata__\":{\"k\":\"\\u00e9\\n\"}}"
        "     01234567890123456789012345678901";
    static const char half[] =
        "\xbd\0\0\0\0\0\0\0{\"a.weight\":{\"dtype\":\"BF16\",\"shape\":[3,2],"
        "\"data_offsets\":[0,12]},\"a.bias\":{\"dtype\":\"F16\",\"shape\":[3],"
        "\"data_offsets\":[12,18]},\"b.weight\":{\"dtype\":\"F64\",\"shape\":[2,3],"
        "\"data_offsets\":[18,66]}}"
        "012345678901234567012345678901234567890123456789012345678901234567";
    struct uw_checkpoint state = {.step = 7, .epoch = 1, .position = 3, .seed = 2, .batch_n = 1};
    struct memory_storage storage = {.base = {&memory_storage_ops}};
    struct uw_model m;

    bind_model(&m, 2);
    uw_checkpoint_save(&m, NULL, &storage.base, "l", NULL);
    uw_fuzz_add(corpus, storage.bytes, storage.bytes_n);
    bind_model(&m, 0);
    uw_checkpoint_save(&m, &state, &storage.base, "c", NULL);
    uw_fuzz_add(corpus, storage.bytes, storage.bytes_n);
    uw_checkpoint_save(&m, NULL, &storage.base, "w", NULL);
    uw_fuzz_add(corpus, storage.bytes, storage.bytes_n);
    uw_fuzz_add(corpus, foreign, sizeof foreign - 1);
    uw_fuzz_add(corpus, half, sizeof half - 1);
    memory_storage_release(&storage);
}

static int all_finite(const float *x, uint32_t n)
{
    float sum = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        sum += x[i] * 0.0f;
    }
    return sum == 0.0f;
}

/* Weights alone, with the low-rank additions that may be beside them. */
static int try_weights(struct memory_storage *storage)
{
    struct uw_error err = {0};
    struct uw_model m;
    float before[64];

    if (bind_model(&m, 0) != UW_OK || m.params.size_n > 64) {
        return -1;
    }
    memcpy(before, m.params.x, m.params.size_n * sizeof(float));
    int rc = uw_checkpoint_load(&m, NULL, &storage->base, "input", &err);
    int same = memcmp(before, m.params.x, m.params.size_n * sizeof(float)) == 0;
    return rc == UW_OK || (same && err.text[0] != '\0') ? 0 : -1;
}

/* Weights of other types; loose: those that fit. */
static int try_foreign(struct memory_storage *storage, bool loose)
{
    struct uw_weights_report report;
    struct uw_error err = {0};
    struct uw_model m;
    float before[64];

    if (bind_model(&m, 0) != UW_OK || m.params.size_n > 64) {
        return -1;
    }
    memcpy(before, m.params.x, m.params.size_n * sizeof(float));
    int rc = uw_checkpoint_load_weights(&m, loose, NULL, &report, &storage->base, "input", &err);
    if (rc < 0) {
        int same = memcmp(before, m.params.x, m.params.size_n * sizeof(float)) == 0;
        return same && err.text[0] != '\0' ? -rc : -1;
    }
    return all_finite(m.params.x, m.params.size_n) ? 50 : -1;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    struct memory_storage storage = {.base = {&memory_storage_ops},
                                     .bytes = (uint8_t *)(uintptr_t)input,
                                     .bytes_n = bytes};
    struct uw_checkpoint state;
    struct uw_error err = {0};
    struct uw_model m;
    float before[64];

    int foreign = try_foreign(&storage, false);
    if (try_weights(&storage) < 0 || foreign < 0 || try_foreign(&storage, true) < 0 ||
        bind_model(&m, 0) != UW_OK || m.params.size_n > 64) {
        return -1;
    }
    memcpy(before, m.params.x, m.params.size_n * sizeof(float));
    int rc = uw_checkpoint_load(&m, &state, &storage.base, "input", &err);
    if (rc < 0) {
        int same = memcmp(before, m.params.x, m.params.size_n * sizeof(float)) == 0;
        return same && err.text[0] != '\0' ? 200 * foreign - rc : -1;
    }
    return all_finite(m.params.x, m.params.size_n) && all_finite(m.state[0], m.trainable_n)
               ? 100
               : -1;
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"safetensors", add_inputs, try_one, 0};
    return uw_fuzz_run(&target, argc, argv);
}
