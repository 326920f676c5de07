/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d; conv1d, a convolution of images one row high; conv_transpose2d, whose forward pass is the
 * input gradient of a convolution. Its geometry.conv2d is the convolution from the layer's output
 * to its input, so fw, bw_input and bw_param change roles. */
#include "layer_shared.h"

/* Output length, 1 or more; 0 if the kernel does not fit. */
static uint32_t size_of(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad,
                        uint32_t dilation)
{
    uint64_t span = (uint64_t)(kernel - 1) * dilation + 1;
    return span > UINT32_MAX ? 0 : uw_window_size(in, (uint32_t)span, stride, pad, false);
}

static uint32_t or_else(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

/* Geometry without in_channels, in_h, in_w and output sizes. */
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

/* A transposed convolution has the weight of the convolution that it transposes. */
static struct uw_layer_tensor tensor(const struct uw_layer *l, uint32_t t)
{
    const struct uw_conv2d *g = &l->geometry.conv2d;
    uint32_t in = g->in_channels / g->groups, taps = g->kernel_h * g->kernel_w;
    uint32_t fan_in = in * taps, fan_out = g->out_channels / g->groups * taps;
    bool transposed = l->def->kind == UW_LAYER_CONV_TRANSPOSE2D;

    if (t != 0) {
        return (struct uw_layer_tensor){
            .suffix = "bias", .dim = {l->out.c}, .rank = 1, .bias = true};
    }
    struct uw_layer_tensor weight = {
        .suffix = "weight", .dim = {g->out_channels, in, g->kernel_h, g->kernel_w}, .rank = 4,
        .init = UW_INIT_WEIGHT, .fan_in = transposed ? fan_out : fan_in,
        .fan_out = transposed ? fan_in : fan_out};
    if (l->in.rank == 2) {
        weight.dim[2] = g->kernel_w;
        weight.rank = 3;
    }
    return weight;
}

/* Options and checks common to the three kinds. A transposed convolution's options begin with those
 * of conv2d. */
static int begin(struct uw_layer *l, const struct uw_shape *in, bool flat, struct uw_error *err)
{
    struct uw_conv2d *g = &l->geometry.conv2d;

    *g = flat ? options_1d(&l->def->conv1d) : options_2d(&l->def->conv2d);
    l->tensors_n = (flat ? l->def->conv1d.no_bias : l->def->conv2d.no_bias) ? 1 : 2;
    if (g->out_channels == 0 || g->kernel_h == 0 || g->kernel_w == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "out_channels and kernel need 1 or more");
    }
    int rc = uw_want_rank(in, flat ? 2 : 3, NULL, err);
    if (rc == UW_OK && (in->c % g->groups != 0 || g->out_channels % g->groups != 0)) {
        rc = uw_error_set(err, UW_ERR_SHAPE,
                          "%u groups: must divide the input's %u channels and out_channels %u",
                          (unsigned)g->groups, (unsigned)in->c, (unsigned)g->out_channels);
    }
    return rc;
}

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    struct uw_conv2d *g = &l->geometry.conv2d;
    int rc = begin(l, in, l->def->kind == UW_LAYER_CONV1D, err);

    if (rc < 0) {
        return rc;
    }
    g->in_channels = in->c;
    g->in_h = in->h;
    g->in_w = in->w;
    g->out_h = size_of(g->in_h, g->kernel_h, g->stride_h, g->pad_h, g->dilation_h);
    g->out_w = size_of(g->in_w, g->kernel_w, g->stride_w, g->pad_w, g->dilation_w);
    if (g->out_h == 0 || g->out_w == 0) {
        return uw_error_set(err, UW_ERR_SHAPE,
                            "kernel %ux%u with padding %ux%u and dilation %ux%u does not fit its "
                            "input %ux%u", (unsigned)g->kernel_h, (unsigned)g->kernel_w,
                            (unsigned)g->pad_h, (unsigned)g->pad_w, (unsigned)g->dilation_h,
                            (unsigned)g->dilation_w, (unsigned)in->h, (unsigned)in->w);
    }
    l->out = (struct uw_shape){g->out_channels, 1, g->out_h, g->out_w, in->rank};
    return UW_OK;
}

/* The layer's geometry; written to *c if the layer does the batch norm before it. */
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

/* ---- transposed ---- */

/* (in - 1) stride - 2 pad + dilation (kernel - 1) + out_pad + 1; 0 if below 1 or too large. */
static uint32_t transposed_size(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad,
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

static int transposed_infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_conv_transpose2d_def *d = &l->def->conv_transpose2d;
    struct uw_conv2d *g = &l->geometry.conv2d;
    int rc = begin(l, in, false, err);

    if (rc < 0) {
        return rc;
    }
    if ((d->out_pad_h >= g->stride_h && d->out_pad_h >= g->dilation_h) ||
        (d->out_pad_w >= g->stride_w && d->out_pad_w >= g->dilation_w)) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "output padding %ux%u: must be below stride or dilation",
                            (unsigned)d->out_pad_h, (unsigned)d->out_pad_w);
    }
    g->in_channels = d->out_channels;
    g->out_channels = in->c;
    g->out_h = in->h;
    g->out_w = in->w;
    g->in_h = transposed_size(in->h, g->kernel_h, g->stride_h, g->pad_h, g->dilation_h,
                              d->out_pad_h);
    g->in_w = transposed_size(in->w, g->kernel_w, g->stride_w, g->pad_w, g->dilation_w,
                              d->out_pad_w);
    if (g->in_h == 0 || g->in_w == 0) {
        return uw_error_set(err, UW_ERR_SHAPE,
                            "padding %ux%u makes its output empty, or it does not fit 32 "
                            "bits", (unsigned)g->pad_h, (unsigned)g->pad_w);
    }
    l->out = (struct uw_shape){d->out_channels, 1, g->in_h, g->in_w, 3};
    return UW_OK;
}

static int transposed_forward(const struct uw_exec *e, const struct uw_layer *l,
                              const struct uw_pass *p, const float *const *x, float *y)
{
    const struct uw_conv2d *g = &l->geometry.conv2d;
    int rc = e->kernels->conv2d_bw_input(e, g, p->batch_n, x[0], l->param[0], y, false);
    if (rc < 0 || l->param[1] == NULL) {
        return rc;
    }
    return e->kernels->add_channels(e, p->batch_n, g->in_channels, (size_t)g->in_h * g->in_w,
                                    l->param[1], y);
}

static int transposed_bw_input(const struct uw_exec *e, const struct uw_layer *l,
                               const struct uw_pass *p, const float *const *x, uint32_t which,
                               float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    return e->kernels->conv2d_fw(e, &l->geometry.conv2d, p->batch_n, l->dy, l->param[0], NULL, dx,
                                 accumulate);
}

static int transposed_bw_param(const struct uw_exec *e, const struct uw_layer *l,
                               const struct uw_pass *p, const float *const *x, float scale,
                               float *const *d)
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

#define CONVOLUTION(kind) \
    {.name = kind, .weight_reads_x = true, .infer = infer, \
     .take_relu_behind = UW_ON_DEVICES(uw_take_bias_relu), .takes_norm = takes_norm, \
     .tensor = tensor, .scratch_bytes = scratch_bytes, .forward = forward, \
     .bw_prepare = UW_ON_DEVICES(uw_conv2d_relu_bw), .bw_input = bw_input, .bw_param = bw_param}

const struct uw_layer_ops uw_layer_conv2d = CONVOLUTION("conv2d");
const struct uw_layer_ops uw_layer_conv1d = CONVOLUTION("conv1d");
const struct uw_layer_ops uw_layer_conv_transpose2d = {
    .name = "conv_transpose2d",
    .weight_reads_x = true,
    .infer = transposed_infer,
    .tensor = tensor,
    .scratch_bytes = scratch_bytes,
    .forward = transposed_forward,
    .bw_input = transposed_bw_input,
    .bw_param = transposed_bw_param,
};
