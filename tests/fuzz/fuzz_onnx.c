/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX files, mutated. What is refused must come with a sentence; what is read must be a table
 * that can be measured, or refused by name, and must take its own weights. */
#include "fuzz.h"

#include "unit/memory_storage.h"

#include "uwasa/backends.h"
#include "uwasa/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const char *const names[] = {"residual", "cnn_train14", "embedding", "gru", "lstm_bi",
                                        "shapes",   "causal",      "norms",     "attention11",
                                        "forms",    "old",         "new"};
    static uint8_t bytes[32768];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s.onnx", UWASA_ONNX, names[i]);
        FILE *f = fopen(path, "rb");
        if (f == NULL) {
            fprintf(stderr, "%s is missing\n", path);
            exit(1);
        }
        uw_fuzz_add(corpus, bytes, fread(bytes, 1, sizeof bytes, f));
        fclose(f);
    }
}

/* Plan, bind and fill what was read, unless it is large. */
static int use(const struct uw_convert_model *c, struct uw_error *err)
{
    struct uw_model model;
    struct uw_model_need need;
    struct uw_arena arena;
    struct uw_model_config config = {.def = &c->def, .kernels = &uw_kernels_ref, .batch_n = 1,
                                     .workspace_bytes = UW_MODEL_WORKSPACE_BYTES(c->def.layers_n)};
    void *workspace = malloc(config.workspace_bytes);
    void *memory = NULL;
    config.workspace = workspace;
    int rc = workspace != NULL ? uw_model_measure(&config, &need, err) : UW_ERR_NOMEM;
    if (rc == UW_OK && need.total_bytes < 1u << 24) {
        memory = aligned_alloc(64, (need.total_bytes + 127u) / 64u * 64u);
        uw_arena_init(&arena, memory, (need.total_bytes + 127u) / 64u * 64u);
        rc = uw_model_bind(&model, &config, &arena, err);
        rc = rc < 0 ? rc : uw_convert_apply(c, &model, err);
    }
    free(memory);
    free(workspace);
    return rc;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    static uint8_t beside[116]; /* as many as forms.weights has */
    struct memory_storage files = {.base = {&memory_storage_ops}, .bytes = beside,
                                   .bytes_n = sizeof beside};
    const struct uw_convert_options options = {.files = &files.base};
    struct uw_convert_model c;
    struct uw_error err = {.text = ""};
    int rc = uw_convert_read_with(&c, &options, input, bytes, "fuzz", &err);
    if (rc < 0) {
        return err.text[0] != '\0' && c.memory == NULL ? -rc : -1;
    }
    rc = use(&c, &err);
    uw_convert_deinit(&c);
    if (rc < 0 && rc != UW_ERR_NOMEM && err.text[0] == '\0') {
        return -1;
    }
    return rc < 0 ? 100 - rc : 0;
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"onnx", add_inputs, try_one, 32768}, argc, argv);
}
