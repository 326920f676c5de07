/* SPDX-License-Identifier: Apache-2.0
 *
 * A view if only axes of size 1 change places. */
#include "layer_shared.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_transpose_def *d = &l->def->transpose;
    struct uw_permute *g = &l->geometry.permute;
    uint32_t seen = 0, out[3] = {1, 1, 1}, before = 0;
    bool keeps_order = true;

    uw_axes_of(in, g->dim);
    for (uint32_t i = 0; i < 3; i++) {
        g->order[i] = i < in->rank ? d->order[i] : i;
        if (g->order[i] >= (i < in->rank ? in->rank : 3) || (seen & 1u << g->order[i]) != 0) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "order names axis %u at place %u: needs each of 0 to %u once",
                                (unsigned)g->order[i], (unsigned)i + 1, (unsigned)in->rank - 1);
        }
        seen |= 1u << g->order[i];
        out[i] = g->dim[g->order[i]];
        if (out[i] != 1) {
            keeps_order = keeps_order && g->order[i] >= before;
            before = g->order[i];
        }
    }
    l->view = keeps_order;
    l->out = uw_shape_of_axes(in->rank, out);
    return UW_OK;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    return e->kernels->copy->permute(e, &l->geometry.permute, p->batch_n, x[0], y, false);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    const struct uw_permute *g = &l->geometry.permute;
    struct uw_permute back;

    for (uint32_t i = 0; i < 3; i++) {
        back.dim[i] = g->dim[g->order[i]];
        back.order[g->order[i]] = i;
    }
    return e->kernels->copy->permute(e, &back, p->batch_n, l->dy, dx, accumulate);
}

const struct uw_layer_ops uw_layer_transpose = {
    .name = "transpose",
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};
