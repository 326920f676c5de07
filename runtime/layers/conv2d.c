/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d, and conv1d as a convolution of images one row high. */
#include "layers.h"

static uint32_t or_else(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

/* Geometry with in_channels, in_h, in_w, out sizes still to come. */
static struct uw_conv2d options_2d(const struct uw_conv2d_def *d)
{
    struct uw_conv2d g = {
        .out_channels = d->out_channels,
        .kernel_h = d->kernel_h,
        .kernel_w = or_else(d->kernel_w, d->kernel_h),
        .stride_h = or_else(d->stride_h, 1),
        .pad_h = d->pad_h,
        .pad_w = d->pad_w,
        .dilation_h = or_else(d->dilation_h, 1),
        .groups = or_else(d->groups, 1),
    };
    g.stride_w = or_else(d->stride_w, g.stride_h);
    g.dilation_w = or_else(d->dilation_w, g.dilation_h);
    return g;
}

static struct uw_conv2d options_1d(const struct uw_conv1d_def *d)
{
    return (struct uw_conv2d){
        .out_channels = d->out_channels,
        .kernel_h = 1,
        .kernel_w = d->kernel,
        .stride_h = 1,
        .stride_w = or_else(d->stride, 1),
        .pad_w = d->pad,
        .dilation_h = 1,
        .dilation_w = or_else(d->dilation, 1),
        .groups = or_else(d->groups, 1),
    };
}

static void tensor(const struct uw_layer *l, uint32_t t, struct uw_layer_tensor *out)
{
    const struct uw_conv2d *g = &l->geometry.conv2d;

    if (t == 0) {
        *out = (struct uw_layer_tensor){
            .suffix = "weight",
            .dim = {g->out_channels, g->in_channels / g->groups, g->kernel_h, g->kernel_w},
            .rank = 4,
            .init = UW_INIT_WEIGHT,
            .fan_in = g->in_channels / g->groups * g->kernel_h * g->kernel_w,
            .fan_out = g->out_channels / g->groups * g->kernel_h * g->kernel_w,
        };
        if (l->in.rank == 2) {
            out->dim[2] = g->kernel_w;
            out->rank = 3;
        }
    } else {
        *out = (struct uw_layer_tensor){
            .suffix = "bias", .dim = {g->out_channels}, .rank = 1, .bias = true};
    }
}

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    bool flat = l->def->kind == UW_LAYER_CONV1D;
    struct uw_conv2d *g = &l->geometry.conv2d;

    *g = flat ? options_1d(&l->def->conv1d) : options_2d(&l->def->conv2d);
    if (g->out_channels == 0 || g->kernel_h == 0 || g->kernel_w == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "out_channels and kernel need 1 or more");
    }
    int rc = uw_want_rank(in, flat ? 2 : 3, err);
    rc = rc < 0 ? rc : uw_check_groups(in->c, g->out_channels, g->groups, err);
    if (rc < 0) {
        return rc;
    }
    g->in_channels = in->c;
    g->in_h = in->h;
    g->in_w = in->w;
    g->out_h = uw_conv_size(g->in_h, g->kernel_h, g->stride_h, g->pad_h, g->dilation_h);
    g->out_w = uw_conv_size(g->in_w, g->kernel_w, g->stride_w, g->pad_w, g->dilation_w);
    if (g->out_h == 0 || g->out_w == 0) {
        return uw_error_set(err, UW_ERR_SHAPE,
                            "kernel %ux%u with padding %ux%u and dilation %ux%u does not fit its "
                            "input %ux%u", (unsigned)g->kernel_h, (unsigned)g->kernel_w,
                            (unsigned)g->pad_h, (unsigned)g->pad_w, (unsigned)g->dilation_h,
                            (unsigned)g->dilation_w, (unsigned)in->h, (unsigned)in->w);
    }
    l->out = (struct uw_shape){g->out_channels, g->out_h, g->out_w, in->rank};
    l->tensors_n = (flat ? l->def->conv1d.no_bias : l->def->conv2d.no_bias) ? 1 : 2;
    return UW_OK;
}

/* Its geometry; in *c, if it does the batch norm in front. */
static const struct uw_conv2d *geometry_of(const struct uw_layer *l, struct uw_normed_conv2d *c)
{
    return l->normed_by == 0 ? &l->geometry.conv2d : uw_parts.fusing->geometry(l, c);
}

static bool takes_norm(const struct uw_layer *l, const struct uw_kernels *k, uint32_t batch_n)
{
    return k->conv2d_takes_norm(k, &l->geometry.conv2d, batch_n);
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads)
{
    struct uw_normed_conv2d c;
    return k->conv2d_scratch_bytes(k, geometry_of(l, &c), batch_n, threads);
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    struct uw_normed_conv2d c;
    if (uw_does_relu_behind(l)) {
        return uw_conv2d_bias_relu(e, l, p, x[0], y);
    }
    return e->kernels->conv2d_fw(e, geometry_of(l, &c), p->batch_n, x[0], l->param[0], l->param[1],
                                 y, false);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    return e->kernels->conv2d_bw_input(e, &l->geometry.conv2d, p->batch_n, l->dy, l->param[0], dx,
                                       accumulate);
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d)
{
    struct uw_normed_conv2d c;
    if (uw_does_relu_behind(l) && uw_conv2d_bias_by_sums(e, l, p)) {
        int rc = uw_add_bias_sums(e, l, p, l->geometry.conv2d.out_channels, scale, d[1]);
        return rc < 0 || d[0] == NULL
                   ? rc
                   : e->kernels->conv2d_bw_param(e, geometry_of(l, &c), p->batch_n, x[0], l->dy,
                                                 scale, d[0], NULL);
    }
    return e->kernels->conv2d_bw_param(e, geometry_of(l, &c), p->batch_n, x[0], l->dy, scale, d[0],
                                       d[1]);
}

const struct uw_layer_ops uw_layer_conv2d = {
    .name = "conv2d",
    .weight_reads_x = true,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .take_relu_behind = UW_ON_DEVICES(uw_take_bias_relu),
    .takes_norm = takes_norm,
    .tensor = tensor,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_prepare = UW_ON_DEVICES(uw_conv2d_relu_bw),
    .bw_input = bw_input,
    .bw_param = bw_param,
};

const struct uw_layer_ops uw_layer_conv1d = {
    .name = "conv1d",
    .weight_reads_x = true,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .take_relu_behind = UW_ON_DEVICES(uw_take_bias_relu),
    .takes_norm = takes_norm,
    .tensor = tensor,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_prepare = UW_ON_DEVICES(uw_conv2d_relu_bw),
    .bw_input = bw_input,
    .bw_param = bw_param,
};
