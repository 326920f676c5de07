/* SPDX-License-Identifier: Apache-2.0 */
#include "layer.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    uint32_t out = l->def->dense.out;

    if (out == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "out needs 1 or more");
    }
    if (in->h != 1 || in->w != 1) {
        return uw_error_set(err, UW_ERR_SHAPE,
                            "its input is %ux%ux%u: put a flatten layer in front",
                            (unsigned)in->c, (unsigned)in->h, (unsigned)in->w);
    }
    uint64_t size = (uint64_t)in->c * out;
    if (size > UINT32_MAX) {
        return uw_error_set(err, UW_ERR_TOOBIG, "its weights do not fit 32 bits");
    }
    l->geometry.dense = (struct uw_dense){.in = in->c, .out = out};
    l->out = (struct uw_shape){out, 1, 1};
    l->tensor[0] = (struct uw_layer_tensor){
        .suffix = "weight", .dim = {out, in->c}, .rank = 2, .size_n = (uint32_t)size};
    l->tensor[1] =
        (struct uw_layer_tensor){.suffix = "bias", .dim = {out}, .rank = 1, .size_n = out};
    l->tensors_n = l->def->dense.no_bias ? 1 : 2;
    l->fan_in = in->c;
    l->fan_out = out;
    return UW_OK;
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads)
{
    return k->dense_scratch_bytes(k, &l->geometry.dense, batch_n, threads);
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, uint32_t batch_n,
                   const float *const *x, float *y)
{
    return e->kernels->dense_fw(e, &l->geometry.dense, batch_n, x[0], l->param[0], l->param[1], y);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, uint32_t batch_n,
                    uint32_t which, float *dx, bool accumulate)
{
    (void)which;
    return e->kernels->dense_bw_input(e, &l->geometry.dense, batch_n, l->dy, l->param[0], dx,
                                      accumulate);
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, uint32_t batch_n,
                    const float *x, float scale, float *const *d)
{
    return e->kernels->dense_bw_param(e, &l->geometry.dense, batch_n, x, l->dy, scale, d[0], d[1]);
}

const struct uw_layer_ops uw_layer_dense = {
    .name = "dense",
    .reads_x = true,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_input = bw_input,
    .bw_param = bw_param,
};
