/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_shared.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    uint32_t axis = l->def->concat.axis;
    uint32_t all[UW_AXES_MAX], dim[UW_AXES_MAX], inner = 1;
    uint64_t sum = 0;

    if (axis >= in[0].rank) {
        return uw_error_set(err, UW_ERR_INVALID, "axis %u: its inputs have axes 0 to %u",
                            (unsigned)axis, (unsigned)in[0].rank - 1);
    }
    uw_axes_of(&in[0], all);
    for (uint32_t i = axis + 1; i < UW_AXES_MAX; i++) {
        inner *= all[i];
    }
    l->geometry.concat.outer = 1;
    for (uint32_t i = 0; i < axis; i++) {
        l->geometry.concat.outer *= all[i];
    }
    for (uint32_t k = 0; k < l->inputs_n; k++) {
        uw_axes_of(&in[k], dim);
        bool fits = in[k].rank == in[0].rank;
        for (uint32_t i = 0; i < UW_AXES_MAX; i++) {
            fits = fits && (i == axis || dim[i] == all[i]);
        }
        if (!fits) {
            char a[UW_SHAPE_TEXT_BYTES];
            char b[UW_SHAPE_TEXT_BYTES];
            return uw_error_set(err, UW_ERR_SHAPE,
                                "input %u is %s, input 1 is %s: they may differ in axis %u only",
                                (unsigned)k + 1, uw_shape_text(&in[k], a),
                                uw_shape_text(&in[0], b), (unsigned)axis);
        }
        l->geometry.concat.row_n[k] = dim[axis] * inner;
        sum += dim[axis];
    }
    if (sum > UINT32_MAX) {
        return uw_error_set(err, UW_ERR_TOOBIG, "its output does not fit 32 bits");
    }
    all[axis] = (uint32_t)sum;
    l->out = uw_shape_of_axes(in[0].rank, all);
    return UW_OK;
}

/* Layout of input `which` within the output, and where it begins. */
static struct uw_copy place(const struct uw_layer *l, uint32_t batch_n, uint32_t which,
                            size_t *offset)
{
    const uint32_t *row_n = l->geometry.concat.row_n;
    size_t outer = l->geometry.concat.outer;

    *offset = 0;
    for (uint32_t k = 0; k < which; k++) {
        *offset += row_n[k];
    }
    return (struct uw_copy){.rows = batch_n * outer, .row_n = row_n[which],
                            .x_step = row_n[which], .y_step = l->out_n / outer};
}

/* Samples that one copy of input `which` serves: an input for all samples is copied for each. */
static uint32_t at_once(const struct uw_layer *l, const struct uw_pass *p, uint32_t which)
{
    return (l->shared_inputs & 1u << which) != 0 ? 1 : p->batch_n;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    int rc = UW_OK;
    for (uint32_t k = 0; k < l->inputs_n && rc == UW_OK; k++) {
        size_t offset;
        uint32_t some = at_once(l, p, k);
        struct uw_copy c = place(l, some, k, &offset);
        for (uint32_t n = 0; n < p->batch_n && rc == UW_OK; n += some) {
            rc = e->kernels->copy->copy(e, &c, x[k], y + (size_t)n * l->out_n + offset, false);
        }
    }
    return rc;
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    size_t offset;
    uint32_t some = at_once(l, p, which);
    struct uw_copy c = place(l, some, which, &offset);
    int rc = UW_OK;
    c.x_step = c.y_step;
    c.y_step = c.row_n;
    for (uint32_t n = 0; n < p->batch_n && rc == UW_OK; n += some) {
        rc = e->kernels->copy->copy(e, &c, l->dy + (size_t)n * l->out_n + offset, dx,
                                    accumulate || n > 0);
    }
    return rc;
}

const struct uw_layer_ops uw_layer_concat = {
    .name = "concat",
    .several = true,
    .repeats = true,
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};
