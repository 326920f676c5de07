/* SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

uint32_t uw_conv_size(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad,
                      uint32_t dilation)
{
    uint64_t span = (uint64_t)(kernel - 1) * dilation + 1;
    return span > UINT32_MAX ? 0 : uw_window_size(in, (uint32_t)span, stride, pad);
}

/* Output length of a pool as PyTorch counts; ceil_mode: the last window may hang over the end, but
 * begins inside the input or the padding in front. 0 if none fits. */
static uint32_t pool_size(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad,
                          bool ceil_mode)
{
    uint64_t most = (uint64_t)in + 2u * (uint64_t)pad + (ceil_mode ? stride - 1u : 0u);
    if (kernel == 0 || stride == 0 || most < kernel) {
        return 0;
    }
    uint64_t out = (most - kernel) / stride + 1;
    if (ceil_mode && (out - 1) * stride >= (uint64_t)in + pad) {
        out--;
    }
    return out > UINT32_MAX ? 0 : (uint32_t)out;
}

int uw_want_rank(const struct uw_shape *in, uint32_t rank, struct uw_error *err)
{
    char text[UW_SHAPE_TEXT_BYTES];

    if (in->rank == rank) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_SHAPE, "its input is %s: needs %s", uw_shape_text(in, text),
                        rank == 3 ? "channels x height x width" : "channels x length");
}

int uw_check_groups(uint32_t in_channels, uint32_t out_channels, uint32_t groups,
                    struct uw_error *err)
{
    if (in_channels % groups == 0 && out_channels % groups == 0) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_SHAPE,
                        "%u groups: must divide the input's %u channels and out_channels %u",
                        (unsigned)groups, (unsigned)in_channels, (unsigned)out_channels);
}

static struct uw_pool2d pool_options(const struct uw_layer_def *def, bool *ceil_mode)
{
    const struct uw_pool2d_def *d = &def->pool2d;
    const struct uw_pool1d_def *f = &def->pool1d;
    struct uw_pool2d g;

    if (def->kind == UW_LAYER_MAXPOOL1D || def->kind == UW_LAYER_AVGPOOL1D) {
        *ceil_mode = f->ceil_mode;
        return (struct uw_pool2d){.kernel_h = 1,
                                  .kernel_w = f->kernel,
                                  .stride_h = 1,
                                  .stride_w = f->stride != 0 ? f->stride : f->kernel,
                                  .pad_w = f->pad,
                                  .exclude_pad = f->exclude_pad};
    }
    *ceil_mode = d->ceil_mode;
    g = (struct uw_pool2d){.kernel_h = d->kernel_h,
                           .kernel_w = d->kernel_w != 0 ? d->kernel_w : d->kernel_h,
                           .pad_h = d->pad_h,
                           .pad_w = d->pad_w,
                           .exclude_pad = d->exclude_pad};
    g.stride_h = d->stride_h != 0 ? d->stride_h : g.kernel_h;
    g.stride_w = d->stride_w != 0 ? d->stride_w : (d->stride_h != 0 ? d->stride_h : g.kernel_w);
    return g;
}

int uw_pool_infer(struct uw_layer *l, const struct uw_shape *in, uint32_t taps_max,
                  struct uw_error *err)
{
    bool ceil_mode;
    struct uw_pool2d *g = &l->geometry.pool2d;

    *g = pool_options(l->def, &ceil_mode);
    bool flat = l->def->kind == UW_LAYER_MAXPOOL1D || l->def->kind == UW_LAYER_AVGPOOL1D;
    if (g->kernel_h == 0 || g->kernel_w == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "kernel needs 1 or more");
    }
    if ((uint64_t)g->kernel_h * g->kernel_w > taps_max) {
        return uw_error_set(err, UW_ERR_INVALID, "kernel %ux%u: at most %u taps",
                            (unsigned)g->kernel_h, (unsigned)g->kernel_w, (unsigned)taps_max);
    }
    if (g->pad_h > g->kernel_h / 2 || g->pad_w > g->kernel_w / 2) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "padding %ux%u: at most half of the kernel %ux%u",
                            (unsigned)g->pad_h, (unsigned)g->pad_w, (unsigned)g->kernel_h,
                            (unsigned)g->kernel_w);
    }
    int rc = uw_want_rank(in, flat ? 2 : 3, err);
    if (rc < 0) {
        return rc;
    }
    g->channels = in->c;
    g->in_h = in->h;
    g->in_w = in->w;
    g->out_h = pool_size(g->in_h, g->kernel_h, g->stride_h, g->pad_h, ceil_mode);
    g->out_w = pool_size(g->in_w, g->kernel_w, g->stride_w, g->pad_w, ceil_mode);
    if (g->out_h == 0 || g->out_w == 0) {
        return uw_error_set(err, UW_ERR_SHAPE, "kernel %ux%u does not fit its input %ux%u",
                            (unsigned)g->kernel_h, (unsigned)g->kernel_w, (unsigned)in->h,
                            (unsigned)in->w);
    }
    l->out = (struct uw_shape){in->c, g->out_h, g->out_w, in->rank};
    return UW_OK;
}
