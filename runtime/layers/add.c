/* SPDX-License-Identifier: Apache-2.0 */
#include "layer.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    for (uint32_t i = 1; i < l->inputs_n; i++) {
        if (in[i].c != in[0].c || in[i].h != in[0].h || in[i].w != in[0].w) {
            return uw_error_set(err, UW_ERR_SHAPE,
                                "input %u is %ux%ux%u, input 1 is %ux%ux%u: they must be equal",
                                (unsigned)i + 1, (unsigned)in[i].c, (unsigned)in[i].h,
                                (unsigned)in[i].w, (unsigned)in[0].c, (unsigned)in[0].h,
                                (unsigned)in[0].w);
        }
    }
    l->out = in[0];
    return UW_OK;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, uint32_t batch_n,
                   const float *const *x, float *y)
{
    size_t n = (size_t)batch_n * l->out_n;
    int rc = e->kernels->axpby(e, n, 1.0f, x[0], 0.0f, y);
    for (uint32_t i = 1; i < l->inputs_n && rc == UW_OK; i++) {
        rc = e->kernels->axpby(e, n, 1.0f, x[i], 1.0f, y);
    }
    return rc;
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, uint32_t batch_n,
                    uint32_t which, float *dx, bool accumulate)
{
    (void)which;
    return e->kernels->axpby(e, (size_t)batch_n * l->out_n, 1.0f, l->dy,
                             accumulate ? 1.0f : 0.0f, dx);
}

const struct uw_layer_ops uw_layer_add = {
    .name = "add",
    .inputs_min = 2,
    .inputs_max = UW_LAYER_INPUTS_MAX,
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};
