/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX files that were read, as the export writes them. */
#ifndef UWASA_TEST_ONNX_WRITTEN_H
#define UWASA_TEST_ONNX_WRITTEN_H

#include "onnx_message.h"

#include "uwasa/backends.h"

static inline int append(void *arg, const void *data, size_t data_n)
{
    struct message *m = arg;
    assert_true(m->n + data_n <= sizeof m->bytes);
    memcpy(m->bytes + m->n, data, data_n);
    m->n += data_n;
    return UW_OK;
}

/* What was read, bound and written again, as the file `like` was; NULL: as of no file. */
static inline struct message written_like(const struct uw_convert_model *c,
                                          const struct uw_convert_model *like)
{
    static uint64_t workspace[4096];
    struct message out = {.n = 0};
    struct uw_model m;
    struct uw_model_need need;
    struct uw_arena arena;
    struct uw_error err = {.text = ""};
    const struct uw_model_config config = {
        .def = &c->def, .kernels = &uw_kernels_ref, .batch_n = 1, .workspace = workspace,
        .workspace_bytes = sizeof workspace, .mode = UW_PLAN_INFERENCE};
    uw_model_measure(&config, &need, &err);
    void *memory = aligned_alloc(64, (need.total_bytes + 127) / 64 * 64);
    uw_arena_init(&arena, memory, (need.total_bytes + 127) / 64 * 64);
    uw_model_bind(&m, &config, &arena, &err);
    uw_convert_apply(c, &m, &err);
    uw_convert_write_onnx_like(&m, like, append, &out, &err);
    assert_string_equal(err.text, "");
    free(memory);
    return out;
}

static inline struct message written(const struct uw_convert_model *c)
{
    return written_like(c, c);
}

#endif
