/* SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_dense_def *d = &l->def->dense;
    uint32_t features = in->rank == 2 ? in->w : in->c;
    char text[UW_SHAPE_TEXT_BYTES];

    if (d->out == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "out needs 1 or more");
    }
    if (in->rank == 3 && (in->h != 1 || in->w != 1)) {
        return uw_error_set(err, UW_ERR_SHAPE,
                            "its input is %s: put a flatten layer in front",
                            uw_shape_text(in, text));
    }
    l->geometry.dense = (struct uw_dense){.in = features, .out = d->out};
    l->out = (struct uw_shape){d->out, 1, 1, 1};
    if (in->rank == 2) {
        l->out = (struct uw_shape){in->c, 1, d->out, 2};
    }
    l->tensors_n = d->no_bias ? 1 : 2;
    return UW_OK;
}

static void tensor(const struct uw_layer *l, uint32_t t, struct uw_layer_tensor *out)
{
    const struct uw_dense *g = &l->geometry.dense;

    if (t == 0) {
        *out = (struct uw_layer_tensor){.suffix = "weight", .dim = {g->out, g->in}, .rank = 2,
                                        .init = UW_INIT_WEIGHT, .fan_in = g->in,
                                        .fan_out = g->out};
    } else {
        *out = (struct uw_layer_tensor){
            .suffix = "bias", .dim = {g->out}, .rank = 1, .bias = true};
    }
}

/* Rows of features: one a sample, or one a step of a sequence. */
static uint32_t rows(const struct uw_layer *l, uint32_t batch_n)
{
    return batch_n * (l->in_n / l->geometry.dense.in);
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads)
{
    return k->dense_scratch_bytes(k, &l->geometry.dense, rows(l, batch_n), threads);
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    return e->kernels->dense_fw(e, &l->geometry.dense, rows(l, p->batch_n), x[0], l->param[0],
                                l->param[1], y);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    return e->kernels->dense_bw_input(e, &l->geometry.dense, rows(l, p->batch_n), l->dy,
                                      l->param[0], dx, accumulate);
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d)
{
    return e->kernels->dense_bw_param(e, &l->geometry.dense, rows(l, p->batch_n), x[0], l->dy,
                                      scale, d[0], d[1]);
}

const struct uw_layer_ops uw_layer_dense = {
    .name = "dense",
    .param_reads_x = true,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .tensor = tensor,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_input = bw_input,
    .bw_param = bw_param,
};
