/* SPDX-License-Identifier: Apache-2.0
 *
 * The average pools; those over a length are images one row high, the global one has the input as
 * its only window. */
#include "layers.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    return uw_pool_infer(l, in, UINT32_MAX, err);
}

static int infer_global(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    char text[UW_SHAPE_TEXT_BYTES];

    if (in->rank == 1) {
        return uw_error_set(err, UW_ERR_SHAPE,
                            "its input is %s: needs channels x height x width or channels x length",
                            uw_shape_text(in, text));
    }
    l->geometry.pool2d = (struct uw_pool2d){
        .channels = in->c, .in_h = in->h, .in_w = in->w, .out_h = 1, .out_w = 1,
        .kernel_h = in->h, .kernel_w = in->w, .stride_h = 1, .stride_w = 1};
    l->out = (struct uw_shape){in->c, 1, 1, 1};
    return UW_OK;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    return e->kernels->avgpool2d_fw(e, &l->geometry.pool2d, p->batch_n, x[0], y);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    return e->kernels->avgpool2d_bw_input(e, &l->geometry.pool2d, p->batch_n, l->dy, dx,
                                          accumulate);
}

const struct uw_layer_ops uw_layer_avgpool2d = {
    .name = "avgpool2d",
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};

const struct uw_layer_ops uw_layer_avgpool1d = {
    .name = "avgpool1d",
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};

const struct uw_layer_ops uw_layer_global_avgpool = {
    .name = "global_avgpool",
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer_global,
    .forward = forward,
    .bw_input = bw_input,
};
