/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of two inputs with NumPy's broadcasting: sizes are compared from the last axis on, and
 * an axis of size 1, or a missing one, is repeated. */
#include "layer_shared.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    struct uw_arithmetic *g = &l->geometry.arithmetic;
    uint32_t dim[2][UW_TENSOR_AXES], rank = 0;

    if (l->inputs_n != 2) {
        return uw_error_set(err, UW_ERR_INVALID, "%u inputs: needs 2", (unsigned)l->inputs_n);
    }
    *g = (struct uw_arithmetic){.op = l->def->arithmetic.op};
    for (uint32_t k = 0; k < 2; k++) {
        uw_axes_at_end(&in[k], in[k].rank, UW_TENSOR_AXES, dim[k]);
        rank = in[k].rank > rank ? in[k].rank : rank;
    }
    uint32_t n[2] = {1, 1};
    for (uint32_t i = UW_TENSOR_AXES; i-- > 0;) {
        g->dim[i] = dim[0][i] > dim[1][i] ? dim[0][i] : dim[1][i];
        for (uint32_t k = 0; k < 2; k++) {
            if (dim[k][i] != 1 && dim[k][i] != g->dim[i]) {
                char a[UW_SHAPE_TEXT_BYTES];
                char b[UW_SHAPE_TEXT_BYTES];
                return uw_error_set(err, UW_ERR_SHAPE,
                                    "its inputs %s and %s differ in an axis that is not 1",
                                    uw_shape_text(&in[0], a), uw_shape_text(&in[1], b));
            }
            g->step[k][i] = dim[k][i] == 1 ? 0 : n[k];
            n[k] *= dim[k][i];
        }
    }
    for (uint32_t k = 0; k < 2; k++) { /* the minibatch */
        g->step[k][0] = (l->shared_inputs & 1u << k) != 0 ? 0 : n[k];
    }
    l->out = uw_shape_of_axes(rank, &g->dim[UW_TENSOR_AXES - rank]);
    return UW_OK;
}

static struct uw_arithmetic of_batch(const struct uw_layer *l, const struct uw_pass *p)
{
    struct uw_arithmetic g = l->geometry.arithmetic;
    g.dim[0] = p->batch_n;
    return g;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    const struct uw_arithmetic g = of_batch(l, p);
    return e->kernels->tensor->arithmetic_fw(e, &g, x[0], x[1], y);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    const struct uw_arithmetic g = of_batch(l, p);
    return e->kernels->tensor->arithmetic_bw(e, &g, which, x[0], x[1], l->dy, dx, accumulate);
}

const struct uw_layer_ops uw_layer_arithmetic = {
    .name = "arithmetic",
    .processor_only = true,
    .input_reads_x = true,
    .several = true,
    .repeats = true,
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};
