/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_shared.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_slice_def *d = &l->def->slice;
    struct uw_copy *g = &l->geometry.slice.copy;
    uint32_t dim[UW_AXES_MAX], axis = d->axis, rank = in->rank, inner = 1;

    if (axis >= rank) {
        return uw_error_set(err, UW_ERR_INVALID, "axis %u: its input has axes 0 to %u",
                            (unsigned)axis, (unsigned)rank - 1);
    }
    uw_axes_of(in, dim);
    int64_t size = dim[axis];
    int64_t start = d->start < 0 ? d->start + size : d->start;
    int64_t length = d->length != 0 ? d->length : size - start;
    if (start < 0 || start >= size || length > size - start) {
        return uw_error_set(err, UW_ERR_SHAPE, "start %ld, length %lu: the axis has %u values",
                            (long)d->start, (unsigned long)d->length, (unsigned)dim[axis]);
    }
    if (d->squeeze && (length != 1 || rank == 1)) {
        return uw_error_set(err, UW_ERR_INVALID,
                            rank == 1 ? "squeeze: the only axis cannot be dropped"
                                      : "squeeze needs length 1");
    }
    *g = (struct uw_copy){.rows = 1};
    for (uint32_t i = 0; i < UW_AXES_MAX; i++) {
        g->rows *= i < axis ? dim[i] : 1;
        inner *= i > axis ? dim[i] : 1;
    }
    g->row_n = g->y_step = (size_t)length * inner;
    g->x_step = (size_t)dim[axis] * inner;
    l->geometry.slice.offset = (size_t)start * inner;
    dim[axis] = (uint32_t)length;
    for (uint32_t i = axis; d->squeeze && i < UW_AXES_MAX; i++) {
        dim[i] = i + 1 < UW_AXES_MAX ? dim[i + 1] : 1;
    }
    l->out = uw_shape_of_axes(d->squeeze ? rank - 1 : rank, dim);
    return UW_OK;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    struct uw_copy c = l->geometry.slice.copy;
    c.rows *= p->batch_n;
    return e->kernels->copy->copy(e, &c, x[0] + l->geometry.slice.offset, y, false);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    struct uw_copy c = l->geometry.slice.copy;
    size_t step = c.x_step;

    c.rows *= p->batch_n;
    c.x_step = c.y_step;
    c.y_step = step;
    int rc = accumulate ? UW_OK : uw_zero(e, dx, (size_t)p->batch_n * l->in_n * sizeof *dx);
    return rc < 0 ? rc
                  : e->kernels->copy->copy(e, &c, l->dy, dx + l->geometry.slice.offset,
                                           accumulate);
}

const struct uw_layer_ops uw_layer_slice = {
    .name = "slice",
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};
