/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_shared.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_reduce_def *d = &l->def->reduce;
    uint32_t dim[UW_AXES_MAX], out[UW_AXES_MAX] = {1, 1, 1, 1}, rank = 0;
    uint32_t axes = d->axes != 0 ? d->axes : 1;
    struct uw_reduce *g = &l->geometry.reduce;

    if (d->axis >= in->rank || axes > in->rank - d->axis) {
        return uw_error_set(err, UW_ERR_INVALID, "axes %u to %u: its input has axes 0 to %u",
                            (unsigned)d->axis, (unsigned)(d->axis + axes) - 1,
                            (unsigned)in->rank - 1);
    }
    *g = (struct uw_reduce){.op = d->op, .outer = 1, .inner = 1, .n = 1};
    uw_axes_of(in, dim);
    for (uint32_t i = 0; i < in->rank; i++) {
        bool reduced = i >= d->axis && i < d->axis + axes;
        g->outer *= i < d->axis ? dim[i] : 1;
        g->inner *= i >= d->axis + axes ? dim[i] : 1;
        g->n *= reduced ? dim[i] : 1;
        if (!reduced || d->keep) {
            out[rank++] = reduced ? 1 : dim[i];
        }
    }
    l->out = uw_shape_of_axes(rank != 0 ? rank : 1, out);
    return UW_OK;
}

static struct uw_reduce of_batch(const struct uw_layer *l, const struct uw_pass *p)
{
    struct uw_reduce r = l->geometry.reduce;
    r.outer *= p->batch_n;
    return r;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    const struct uw_reduce r = of_batch(l, p);
    return e->kernels->tensor->reduce_fw(e, &r, x[0], y);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)which;
    const struct uw_reduce r = of_batch(l, p);
    return e->kernels->tensor->reduce_bw(e, &r, x[0], l->y, l->dy, dx, accumulate);
}

const struct uw_layer_ops uw_layer_reduce = {
    .name = "reduce",
    .processor_only = true,
    .input_reads_x = true,
    .reads_y = true,
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};
