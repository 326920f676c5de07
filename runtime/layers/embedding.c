/* SPDX-License-Identifier: Apache-2.0
 *
 * Indices have no gradient, so no earlier layer can be trained. */
#include "layer_shared.h"

#define VOCABULARY_MAX (1u << 24)   /* every smaller index is exact in a float */

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_embedding_def *d = &l->def->embedding;

    if (d->vocabulary == 0 || d->vocabulary > VOCABULARY_MAX || d->size == 0) {
        return uw_error_set(err, UW_ERR_INVALID, d->size == 0
                                                     ? "size needs 1 or more"
                                                     : "vocabulary needs 1 to 16777216");
    }
    l->out = uw_shape_matrix(in->c, d->size);
    l->tensors_n = 1;
    return uw_want_rank(in, 1, "one row of indices", err);
}

static struct uw_layer_tensor tensor(const struct uw_layer *l, uint32_t t)
{
    (void)t;
    const struct uw_embedding_def *d = &l->def->embedding;
    return (struct uw_layer_tensor){.suffix = "weight", .dim = {d->vocabulary, d->size}, .rank = 2,
                                    .init = UW_INIT_NORMAL, .deviation = 1.0f,
                                    .fan_in = d->vocabulary, .fan_out = d->size};
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    const struct uw_embedding_def *d = &l->def->embedding;
    return e->kernels->copy->gather(e, (size_t)p->batch_n * l->in_n, d->vocabulary, d->size, x[0],
                                    l->param[0], y);
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d)
{
    const struct uw_embedding_def *def = &l->def->embedding;
    return e->kernels->copy->scatter_add(e, (size_t)p->batch_n * l->in_n, def->vocabulary,
                                         def->size, x[0], l->dy, scale, d[0]);
}

const struct uw_layer_ops uw_layer_embedding = {
    .name = "embedding",
    .param_reads_x = true,
    .wants = "whole numbers from 0 to below its vocabulary",
    .infer = infer,
    .tensor = tensor,
    .forward = forward,
    .bw_param = bw_param,
};
