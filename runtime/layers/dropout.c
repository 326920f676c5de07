/* SPDX-License-Identifier: Apache-2.0
 *
 * The mask is a function of the step's key, the layer and the element's index in the minibatch. It
 * takes no memory: the backward pass and recomputation compute it again. */
#include "layer_shared.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    (void)in;
    float rate = l->def->dropout.rate;
    if (!(rate >= 0.0f && rate < 1.0f)) {
        return uw_error_set(err, UW_ERR_INVALID, "rate %g: needs 0 to below 1", (double)rate);
    }
    return UW_OK;
}

static int drop(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                const float *x, float *y, bool accumulate)
{
    const struct uw_dropout d = {.noise = p->noise, .layer = l->index,
                                 .rate = l->def->dropout.rate};
    return e->kernels->activation->dropout(e, &d, (uint64_t)p->first * l->out_n,
                                           (size_t)p->batch_n * l->out_n, x, y, accumulate);
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    if (p->training) {
        return drop(e, l, p, x[0], y, false);
    }
    return x[0] == y ? UW_OK
                     : e->kernels->axpby(e, (size_t)p->batch_n * l->out_n, 1.0f, x[0], 0.0f, y);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    return drop(e, l, p, l->dy, dx, accumulate);
}

const struct uw_layer_ops uw_layer_dropout = {
    .name = "dropout",
    .in_place = true,
    .gradient_in_place = true,
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};
