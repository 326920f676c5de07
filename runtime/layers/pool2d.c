/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling over windows. 1-d pools use images one row high; the global pool has one window, the
 * whole input.
 *
 * Max pools keep one byte per output, the index of the maximum's tap. The backward pass reads
 * nothing else, so the memory plan can reuse the larger input at once. */
#include "layer_shared.h"

static bool is_flat(const struct uw_layer_def *def)
{
    return def->kind == UW_LAYER_MAXPOOL1D || def->kind == UW_LAYER_AVGPOOL1D;
}

static struct uw_pool2d options(const struct uw_layer_def *def, bool *ceil_mode)
{
    const struct uw_pool2d_def *d = &def->pool2d;
    const struct uw_pool1d_def *f = &def->pool1d;
    struct uw_pool2d g;

    if (is_flat(def)) {
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

/* taps_max: limit of kernel_h * kernel_w. */
static int infer(struct uw_layer *l, const struct uw_shape *in, uint32_t taps_max,
                 struct uw_error *err)
{
    bool ceil_mode;
    struct uw_pool2d *g = &l->geometry.pool2d;

    *g = options(l->def, &ceil_mode);
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
    int rc = uw_want_rank(in, is_flat(l->def) ? 2 : 3, NULL, err);
    if (rc < 0) {
        return rc;
    }
    g->channels = in->c;
    g->in_h = in->h;
    g->in_w = in->w;
    g->out_h = uw_window_size(g->in_h, g->kernel_h, g->stride_h, g->pad_h, ceil_mode);
    g->out_w = uw_window_size(g->in_w, g->kernel_w, g->stride_w, g->pad_w, ceil_mode);
    if (g->out_h == 0 || g->out_w == 0) {
        return uw_error_set(err, UW_ERR_SHAPE, "kernel %ux%u does not fit its input %ux%u",
                            (unsigned)g->kernel_h, (unsigned)g->kernel_w, (unsigned)in->h,
                            (unsigned)in->w);
    }
    l->out = (struct uw_shape){in->c, 1, g->out_h, g->out_w, in->rank};
    return UW_OK;
}

static int max_infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    int rc = infer(l, in, UW_POOL_NONE, err);
    if (rc == UW_OK) {
        l->aux_sample_bytes = uw_shape_size(&l->out);
    }
    return rc;
}

static int max_forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                       const float *const *x, float *y)
{
    return e->kernels->maxpool2d_fw(e, &l->geometry.pool2d, p->batch_n, x[0], y, l->aux);
}

static int max_bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                        const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    return e->kernels->maxpool2d_bw_input(e, &l->geometry.pool2d, p->batch_n, l->dy, l->aux, dx,
                                          accumulate);
}

static void take_relu(struct uw_layer *l)
{
    l->geometry.pool2d.relu = true;
}

static int average_infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    return infer(l, in, UINT32_MAX, err);
}

static int global_infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    if (in->rank == 1) {
        return uw_want_rank(in, 3, "channels x height x width or channels x length", err);
    }
    l->geometry.pool2d = (struct uw_pool2d){
        .channels = in->c, .in_h = in->d * in->h, .in_w = in->w, .out_h = 1, .out_w = 1,
        .kernel_h = in->d * in->h, .kernel_w = in->w, .stride_h = 1, .stride_w = 1};
    l->out = uw_shape_row(in->c);
    return UW_OK;
}

static int average_forward(const struct uw_exec *e, const struct uw_layer *l,
                           const struct uw_pass *p, const float *const *x, float *y)
{
    return e->kernels->avgpool2d_fw(e, &l->geometry.pool2d, p->batch_n, x[0], y);
}

static int average_bw_input(const struct uw_exec *e, const struct uw_layer *l,
                            const struct uw_pass *p, const float *const *x, uint32_t which,
                            float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    return e->kernels->avgpool2d_bw_input(e, &l->geometry.pool2d, p->batch_n, l->dy, dx,
                                          accumulate);
}

#define MAX_POOL(kind) \
    {.name = kind, .infer = max_infer, .take_relu = take_relu, .forward = max_forward, \
     .bw_input = max_bw_input}
#define AVERAGE_POOL(kind, infer_one) \
    {.name = kind, .infer = infer_one, .forward = average_forward, .bw_input = average_bw_input}

const struct uw_layer_ops uw_layer_maxpool2d = MAX_POOL("maxpool2d");
const struct uw_layer_ops uw_layer_maxpool1d = MAX_POOL("maxpool1d");
const struct uw_layer_ops uw_layer_avgpool2d = AVERAGE_POOL("avgpool2d", average_infer);
const struct uw_layer_ops uw_layer_avgpool1d = AVERAGE_POOL("avgpool1d", average_infer);
const struct uw_layer_ops uw_layer_global_avgpool = AVERAGE_POOL("global_avgpool", global_infer);
