/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_shared.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_take_def *d = &l->def->take;
    uint32_t dim[UW_AXES_MAX], taps = d->taps != 0 ? d->taps : 1;
    struct uw_take *g = &l->geometry.take;

    if (d->axis >= in->rank || d->n == 0 || d->index == NULL) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "axis %u: its input has axes 0 to %u; the table needs 1 index or more",
                            (unsigned)d->axis, (unsigned)in->rank - 1);
    }
    uw_axes_of(in, dim);
    for (size_t i = 0; i < (size_t)d->n * taps; i++) {
        if (d->index[i] < -1 || d->index[i] >= (int32_t)dim[d->axis]) {
            return uw_error_set(err, UW_ERR_SHAPE, "index %ld: the axis has %u values",
                                (long)d->index[i], (unsigned)dim[d->axis]);
        }
    }
    *g = (struct uw_take){.outer = 1, .inner = 1, .in = dim[d->axis], .out = d->n, .taps = taps,
                          .index = d->index, .weight = d->weight};
    for (uint32_t i = 0; i < in->rank; i++) {
        g->outer *= i < d->axis ? dim[i] : 1;
        g->inner *= i > d->axis ? dim[i] : 1;
    }
    dim[d->axis] = d->n;
    l->out = uw_shape_of_axes(in->rank, dim);
    return UW_OK;
}

static struct uw_take of_batch(const struct uw_layer *l, const struct uw_pass *p)
{
    struct uw_take t = l->geometry.take;
    t.outer *= p->batch_n;
    return t;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    const struct uw_take t = of_batch(l, p);
    return e->kernels->tensor->take_fw(e, &t, x[0], y);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    const struct uw_take t = of_batch(l, p);
    return e->kernels->tensor->take_bw(e, &t, l->dy, dx, accumulate);
}

const struct uw_layer_ops uw_layer_take = {
    .name = "take",
    .processor_only = true,
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};
