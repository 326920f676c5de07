/* SPDX-License-Identifier: Apache-2.0
 *
 * Select the kernel for a shape. Kernels use 32-bit indices: larger minibatches are processed in
 * slices of images. */
#include "conv2d_own.cuh"

#define SLICE_N (1u << 30)      /* values of x or y */
#define SMALL 0x10000000ull     /* multiplications up to which our own kernels may be faster */

static uint64_t products_of(const struct uw_conv2d *c, uint32_t batch_n)
{
    return static_cast<uint64_t>(batch_n) * c->out_h * c->out_w * c->out_channels *
           (c->in_channels / c->groups) * c->kernel_h * c->kernel_w;
}

bool uw_conv2d_own_takes(const struct uw_conv2d *c, uint32_t batch_n, enum uw_conv2d_part part)
{
    (void)part;
    return !c->normed && (uw_depthwise_takes(c) || products_of(c, batch_n) <= SMALL);
}

static struct uw_conv conv_of(const struct uw_conv2d *c)
{
    struct uw_conv v = {};
    v.groups = c->groups;
    v.group_in = c->in_channels / c->groups;
    v.group_out = c->out_channels / c->groups;
    v.in_h = static_cast<int32_t>(c->in_h);
    v.in_w = static_cast<int32_t>(c->in_w);
    v.out_h = static_cast<int32_t>(c->out_h);
    v.out_w = static_cast<int32_t>(c->out_w);
    v.kernel_h = static_cast<int32_t>(c->kernel_h);
    v.kernel_w = static_cast<int32_t>(c->kernel_w);
    v.stride_h = static_cast<int32_t>(c->stride_h);
    v.stride_w = static_cast<int32_t>(c->stride_w);
    v.pad_h = static_cast<int32_t>(c->pad_h);
    v.pad_w = static_cast<int32_t>(c->pad_w);
    v.dilation_h = static_cast<int32_t>(c->dilation_h);
    v.dilation_w = static_cast<int32_t>(c->dilation_w);
    v.in_hw = c->in_h * c->in_w;
    v.out_hw = c->out_h * c->out_w;
    v.taps = c->kernel_h * c->kernel_w;
    return v;
}

/* Images of a slice. */
static uint32_t slice_of(const struct uw_conv2d *c)
{
    uint64_t in = static_cast<uint64_t>(c->in_channels) * c->in_h * c->in_w;
    uint64_t out = static_cast<uint64_t>(c->out_channels) * c->out_h * c->out_w;
    uint64_t images = SLICE_N / (in > out ? in : out);
    return static_cast<uint32_t>(images > 1 ? images : 1);
}

bool uw_conv2d_own_splits(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                          enum uw_conv2d_part part)
{
    if (!uw_conv2d_own_takes(c, batch_n, part) || uw_depthwise_takes(c) ||
        part == UW_CONV2D_BW_PARAM || batch_n > slice_of(c)) {
        return false;
    }
    struct uw_conv v = conv_of(c);
    v.batch_n = batch_n;
    return uw_implicit_splits(e, v, part) > 1;
}

typedef int (*part_fn)(const struct uw_exec *e, const struct uw_conv &c);

/* Run fn per slice. x, dy, y of v are those of image 0; y advances by y_step floats per image. */
static int in_slices(const struct uw_exec *e, const struct uw_conv2d *c, struct uw_conv v,
                     uint32_t batch_n, size_t y_step, part_fn fn)
{
    size_t in = static_cast<size_t>(c->in_channels) * c->in_h * c->in_w;
    size_t out = static_cast<size_t>(c->out_channels) * c->out_h * c->out_w;
    uint32_t slice = slice_of(c);
    int rc = UW_OK;
    for (uint32_t n = 0; n < batch_n && rc == UW_OK; n += v.batch_n) {
        v.batch_n = batch_n - n < slice ? batch_n - n : slice;
        rc = fn(e, v);
        v.x += v.x != nullptr ? v.batch_n * in : 0;
        v.dy += v.dy != nullptr ? v.batch_n * out : 0;
        v.y += v.batch_n * y_step;
    }
    return rc;
}

int uw_conv2d_own_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                     const float *x, const float *w, const float *b, float ceiling, float *y,
                     bool accumulate, bool split)
{
    if (c->normed) {
        return UW_ERR_UNSUPPORTED;
    }
    struct uw_conv v = conv_of(c);
    v.x = x;
    v.w = w;
    v.b = b;
    v.ceiling = ceiling;
    v.y = y;
    v.accumulate = accumulate;
    v.split = split;
    return in_slices(e, c, v, batch_n, static_cast<size_t>(c->out_channels) * v.out_hw,
                     uw_depthwise_takes(c) ? uw_depthwise_fw : uw_implicit_fw);
}

int uw_conv2d_own_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate,
                           bool split)
{
    if (c->normed) {
        return UW_ERR_UNSUPPORTED;
    }
    struct uw_conv v = conv_of(c);
    v.dy = dy;
    v.w = w;
    v.y = dx;
    v.accumulate = accumulate;
    v.split = split;
    return in_slices(e, c, v, batch_n, static_cast<size_t>(c->in_channels) * v.in_hw,
                     uw_depthwise_takes(c) ? uw_depthwise_bw_input : uw_implicit_bw_input);
}

int uw_conv2d_own_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw, float *db)
{
    if (c->normed) {
        return UW_ERR_UNSUPPORTED;
    }
    struct uw_conv v = conv_of(c);
    v.x = x;
    v.dy = dy;
    v.y = dw;
    v.db = db;
    v.scale = scale;
    if (dw != nullptr && uw_depthwise_takes(c)) {
        return in_slices(e, c, v, batch_n, 0, uw_depthwise_bw_param);
    }
    int rc = dw != nullptr ? in_slices(e, c, v, batch_n, 0, uw_implicit_bw_param) : UW_OK;
    return rc < 0 || db == nullptr ? rc
                                   : uw_sum_channels_cuda(e, batch_n, c->out_channels, v.out_hw,
                                                          dy, scale, db);
}
