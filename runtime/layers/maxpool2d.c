/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps one byte an output (which tap won) instead of the input: the backward pass reads nothing
 * else, so the memory plan can reuse the larger input map at once. */
#include "layers.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    int rc = uw_pool_infer(l, in, UW_POOL_NONE, err);
    if (rc == UW_OK) {
        l->aux_sample_bytes = uw_shape_size(&l->out);
    }
    return rc;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    return e->kernels->maxpool2d_fw(e, &l->geometry.pool2d, p->batch_n, x[0], y, l->aux);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    return e->kernels->maxpool2d_bw_input(e, &l->geometry.pool2d, p->batch_n, l->dy, l->aux, dx,
                                          accumulate);
}

static void take_relu(struct uw_layer *l)
{
    l->geometry.pool2d.relu = true;
}

const struct uw_layer_ops uw_layer_maxpool2d = {
    .name = "maxpool2d",
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .take_relu = take_relu,
    .forward = forward,
    .bw_input = bw_input,
};

const struct uw_layer_ops uw_layer_maxpool1d = {
    .name = "maxpool1d",
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .take_relu = take_relu,
    .forward = forward,
    .bw_input = bw_input,
};
