/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_shared.h"

static bool equal(const struct uw_shape *a, const struct uw_shape *b)
{
    return a->rank == b->rank && a->c == b->c && a->d == b->d && a->h == b->h && a->w == b->w;
}

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_layer_ops *broadcasts = uw_parts.layer[UW_LAYER_ARITHMETIC];
    bool one = l->shared_inputs != 0 && !l->shared;
    if (broadcasts != NULL && l->inputs_n == 2 && (one || !equal(&in[0], &in[1]))) {
        l->ops = broadcasts;
        return broadcasts->infer(l, in, err);
    }
    for (uint32_t i = 1; i < l->inputs_n; i++) {
        if (!equal(&in[i], &in[0])) {
            char a[UW_SHAPE_TEXT_BYTES];
            char b[UW_SHAPE_TEXT_BYTES];
            return uw_error_set(err, UW_ERR_SHAPE,
                                "input %u is %s, input 1 is %s: they must be equal",
                                (unsigned)i + 1, uw_shape_text(&in[i], a),
                                uw_shape_text(&in[0], b));
        }
    }
    return UW_OK;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    size_t n = (size_t)p->batch_n * l->out_n;
    if (uw_fused(e->kernels) != NULL) {
        return uw_add_relu(e, l, n, x, y);
    }
    int rc = y != x[0] ? e->kernels->axpby(e, n, 1.0f, x[0], 0.0f, y) : UW_OK;
    for (uint32_t i = 1; i < l->inputs_n && rc == UW_OK; i++) {
        rc = e->kernels->axpby(e, n, 1.0f, x[i], 1.0f, y);
    }
    return rc;
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    if (uw_does_relu_behind(l) && uw_add_cuts_in_input(l)) {
        return uw_add_relu_bw_input(e, l, (size_t)p->batch_n * l->out_n, which, dx, accumulate);
    }
    if (dx == l->dy) {
        return UW_OK;
    }
    return e->kernels->axpby(e, (size_t)p->batch_n * l->out_n, 1.0f, l->dy,
                             accumulate ? 1.0f : 0.0f, dx);
}

const struct uw_layer_ops uw_layer_add = {
    .name = "add",
    .in_place = true,
    .gradient_in_place = true,
    .several = true,
    .infer = infer,
    .take_relu_behind = UW_ON_DEVICES(uw_take_relu_behind),
    .forward = forward,
    .bw_prepare = UW_ON_DEVICES(uw_add_relu_bw),
    .bw_input = bw_input,
};
