/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps one byte an output (which tap won) instead of the input: the backward pass reads nothing
 * else, so the memory plan can reuse the larger input map at once. */
#include "layers.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_pool2d_def *d = &l->def->pool2d;
    struct uw_pool2d *g = &l->geometry.pool2d;

    if (d->kernel_h == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "kernel needs 1 or more");
    }
    *g = (struct uw_pool2d){
        .channels = in->c,
        .in_h = in->h,
        .in_w = in->w,
        .kernel_h = d->kernel_h,
        .kernel_w = d->kernel_w != 0 ? d->kernel_w : d->kernel_h,
        .pad_h = d->pad_h,
        .pad_w = d->pad_w,
    };
    g->stride_h = d->stride_h != 0 ? d->stride_h : g->kernel_h;
    g->stride_w = d->stride_w != 0 ? d->stride_w : (d->stride_h != 0 ? d->stride_h : g->kernel_w);
    if ((uint64_t)g->kernel_h * g->kernel_w > 255) {
        return uw_error_set(err, UW_ERR_INVALID, "kernel %ux%u: at most 255 taps",
                            (unsigned)g->kernel_h, (unsigned)g->kernel_w);
    }
    if (g->pad_h > g->kernel_h / 2 || g->pad_w > g->kernel_w / 2) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "padding %ux%u: at most half of the kernel %ux%u",
                            (unsigned)g->pad_h, (unsigned)g->pad_w, (unsigned)g->kernel_h,
                            (unsigned)g->kernel_w);
    }
    g->out_h = uw_window_size(g->in_h, g->kernel_h, g->stride_h, g->pad_h);
    g->out_w = uw_window_size(g->in_w, g->kernel_w, g->stride_w, g->pad_w);
    if (g->out_h == 0 || g->out_w == 0) {
        return uw_error_set(err, UW_ERR_SHAPE, "kernel %ux%u does not fit its input %ux%u",
                            (unsigned)g->kernel_h, (unsigned)g->kernel_w, (unsigned)in->h,
                            (unsigned)in->w);
    }
    l->out = (struct uw_shape){in->c, g->out_h, g->out_w, 3};
    l->aux_sample_bytes = uw_shape_size(&l->out);
    return UW_OK;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    return e->kernels->maxpool2d_fw(e, &l->geometry.pool2d, p->batch_n, x[0], y, l->aux);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    return e->kernels->maxpool2d_bw_input(e, &l->geometry.pool2d, p->batch_n, l->dy, l->aux, dx,
                                          accumulate);
}

const struct uw_layer_ops uw_layer_maxpool2d = {
    .name = "maxpool2d",
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};
