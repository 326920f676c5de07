/* SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    (void)err;
    l->out = *in;
    return UW_OK;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    return e->kernels->relu_fw(e, (size_t)p->batch_n * l->out_n, x[0], y);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    return e->kernels->relu_bw_input(e, (size_t)p->batch_n * l->out_n, l->y, l->dy, dx, accumulate);
}

const struct uw_layer_ops uw_layer_relu = {
    .name = "relu",
    .reads_y = true,
    .in_place = true,
    .gradient_in_place = true,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};
