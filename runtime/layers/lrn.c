/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_shared.h"

static float or_default(float value, float otherwise)
{
    return value != 0.0f ? value : otherwise;
}

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_lrn_def *d = &l->def->lrn;
    struct uw_lrn *g = &l->geometry.lrn;

    *g = (struct uw_lrn){.channels = in->c, .inner = in->h * in->w, .size = d->size,
                         .alpha = or_default(d->alpha, 1e-4f), .beta = or_default(d->beta, 0.75f),
                         .k = or_default(d->k, 1.0f)};
    if (g->size == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "size 0: needs 1 channel or more");
    }
    if (!(g->alpha > 0.0f) || !(g->beta > 0.0f) || !(g->k > 0.0f)) {
        return uw_error_set(err, UW_ERR_INVALID, "alpha, beta and k need to be above 0");
    }
    return UW_OK;
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads)
{
    (void)batch_n;
    return k->norm->lrn_scratch_bytes(&l->geometry.lrn, threads);
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    return e->kernels->norm->lrn_fw(e, &l->geometry.lrn, p->batch_n, x[0], y);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)which;
    return e->kernels->norm->lrn_bw_input(e, &l->geometry.lrn, p->batch_n, x[0], l->dy, dx,
                                          accumulate);
}

const struct uw_layer_ops uw_layer_lrn = {
    .name = "lrn",
    .input_reads_x = true,
    .infer = infer,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_input = bw_input,
};
