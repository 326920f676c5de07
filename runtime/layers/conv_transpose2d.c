/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of a convolution used as a forward pass: geometry.conv2d is the convolution that
 * maps this layer's output to its input, so the three parts change roles. */
#include "layers.h"

static uint32_t or_else(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static void set_options(struct uw_conv2d *g, const struct uw_conv_transpose2d_def *d)
{
    *g = (struct uw_conv2d){
        .in_channels = d->out_channels,
        .kernel_h = d->kernel_h,
        .kernel_w = or_else(d->kernel_w, d->kernel_h),
        .stride_h = or_else(d->stride_h, 1),
        .pad_h = d->pad_h,
        .pad_w = d->pad_w,
        .dilation_h = or_else(d->dilation_h, 1),
        .groups = or_else(d->groups, 1),
    };
    g->stride_w = or_else(d->stride_w, g->stride_h);
    g->dilation_w = or_else(d->dilation_w, g->dilation_h);
}

/* (in - 1) stride - 2 pad + dilation (kernel - 1) + out_pad + 1; 0: less than 1, or too large. */
static uint32_t size_of(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad,
                        uint32_t dilation, uint32_t out_pad)
{
    uint64_t reach = (uint64_t)(in - 1) * stride, span = (uint64_t)dilation * (kernel - 1);
    uint64_t cut = 2u * (uint64_t)pad;
    if (reach > UINT32_MAX || span > UINT32_MAX) {
        return 0;
    }
    uint64_t size = reach + span + out_pad + 1;
    return size > cut && size - cut <= UINT32_MAX ? (uint32_t)(size - cut) : 0;
}

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_conv_transpose2d_def *d = &l->def->conv_transpose2d;
    struct uw_conv2d *g = &l->geometry.conv2d;

    if (d->out_channels == 0 || d->kernel_h == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "out_channels and kernel need 1 or more");
    }
    set_options(g, d);
    int rc = uw_want_rank(in, 3, err);
    rc = rc < 0 ? rc : uw_check_groups(in->c, d->out_channels, g->groups, err);
    if (rc < 0) {
        return rc;
    }
    if ((d->out_pad_h >= g->stride_h && d->out_pad_h >= g->dilation_h) ||
        (d->out_pad_w >= g->stride_w && d->out_pad_w >= g->dilation_w)) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "output padding %ux%u: must be below stride or dilation",
                            (unsigned)d->out_pad_h, (unsigned)d->out_pad_w);
    }
    g->out_channels = in->c;
    g->out_h = in->h;
    g->out_w = in->w;
    g->in_h = size_of(in->h, g->kernel_h, g->stride_h, g->pad_h, g->dilation_h, d->out_pad_h);
    g->in_w = size_of(in->w, g->kernel_w, g->stride_w, g->pad_w, g->dilation_w, d->out_pad_w);
    if (g->in_h == 0 || g->in_w == 0) {
        return uw_error_set(err, UW_ERR_SHAPE,
                            "padding %ux%u leaves nothing of its output, or that does not fit 32 "
                            "bits", (unsigned)g->pad_h, (unsigned)g->pad_w);
    }
    l->out = (struct uw_shape){d->out_channels, g->in_h, g->in_w, 3};
    l->tensors_n = d->no_bias ? 1 : 2;
    return UW_OK;
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
            .fan_in = g->out_channels / g->groups * g->kernel_h * g->kernel_w,
            .fan_out = g->in_channels / g->groups * g->kernel_h * g->kernel_w,
        };
    } else {
        *out = (struct uw_layer_tensor){
            .suffix = "bias", .dim = {g->in_channels}, .rank = 1, .bias = true};
    }
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads)
{
    return k->conv2d_scratch_bytes(k, &l->geometry.conv2d, batch_n, threads);
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    const struct uw_conv2d *g = &l->geometry.conv2d;
    int rc = e->kernels->conv2d_bw_input(e, g, p->batch_n, x[0], l->param[0], y, false);
    if (rc < 0 || l->param[1] == NULL) {
        return rc;
    }
    return e->kernels->add_channels(e, p->batch_n, g->in_channels, (size_t)g->in_h * g->in_w,
                                    l->param[1], y);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    return e->kernels->conv2d_fw(e, &l->geometry.conv2d, p->batch_n, l->dy, l->param[0], NULL, dx,
                                 accumulate);
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d)
{
    const struct uw_conv2d *g = &l->geometry.conv2d;
    int rc = UW_OK;
    if (d[0] != NULL) {
        rc = e->kernels->conv2d_bw_param(e, g, p->batch_n, l->dy, x[0], scale, d[0], NULL);
    }
    if (rc == UW_OK && d[1] != NULL) {
        rc = e->kernels->sum_channels(e, p->batch_n, g->in_channels, (size_t)g->in_h * g->in_w,
                                      l->dy, scale, d[1]);
    }
    return rc;
}

const struct uw_layer_ops uw_layer_conv_transpose2d = {
    .name = "conv_transpose2d",
    .weight_reads_x = true,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .tensor = tensor,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_input = bw_input,
    .bw_param = bw_param,
};
